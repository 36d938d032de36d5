# turns.py, chapter 24: how long a thousand dead keys in database 1 wait for a million in database 0
#
# Start the server with IDLE_TIMEOUT_MS=0, like that of pause.py.
import os, socket, time
sock = socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", 1234))))
one_oclock = time.time() + 10

def load(database, thousands):
    sock.sendall(b"select %d\r\n" % database)
    sock.recv(5, socket.MSG_WAITALL)  # "+OK\r\n"
    for i in range(thousands):
        sock.sendall(b"".join(b"set key:%d v pxat %d\r\n" % (i * 1000 + k, one_oclock * 1000) for k in range(1000)))
        sock.recv(5000, socket.MSG_WAITALL)

load(1, 1)
load(0, 1000)
time.sleep(max(0, one_oclock - time.time()))
empty_after = {}
while len(empty_after) < 2:
    for database in 0, 1:
        load(database, 0)
        sock.sendall(b"dbsize\r\n")
        if sock.recv(100) == b":0\r\n":
            empty_after.setdefault(database, time.time() - one_oclock)
for database in 0, 1:
    print(f"database {database} is empty after {empty_after[database]:.2f} s")
