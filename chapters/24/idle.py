# idle.py, chapter 24: how long a dead key stays if nothing else happens
#
# Start the server with IDLE_TIMEOUT_MS=0, like that of pause.py.
import os, socket, time
sock = socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", 1234))))
one_oclock = time.time() + 15

def ask(line):
    sock.sendall(line.encode() + b"\r\n")
    return sock.recv(100).decode().strip()

def until_left(count):
    while ask("dbsize") != f":{count}":
        time.sleep(0.01)

for i in range(16):
    ask(f"set long:{i} v ex 10000")
for i in range(1000):
    sock.sendall(b"".join(b"set key:%d v pxat %d\r\n" % (i * 1000 + k, one_oclock * 1000) for k in range(1000)))
    sock.recv(5000, socket.MSG_WAITALL)  # a thousand times "+OK\r\n"
until_left(16)
for name in "a", "b", "c":
    ask(f"set {name} v px 100")
    began = time.time()
    until_left(16)
    print(f"{name} was to live for 0.1 s, and is gone after {time.time() - began:.1f}")
