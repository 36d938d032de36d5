# steady.py, chapter 24: how many keys in memory are dead if keys die all day
import os, random, socket, time
sock = socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", 1234))))
deadlines, began = [], time.time()
for i in range(200):
    time.sleep(max(0, began + i * 0.05 - time.time()))
    new = [int(time.time() * 1000) + random.randrange(2000) for k in range(1000)]
    sock.sendall(b"".join(b"set key:%d v pxat %d\r\n" % (i * 1000 + k, new[k]) for k in range(1000)))
    sock.recv(5000, socket.MSG_WAITALL)
    deadlines += new
sock.sendall(b"dbsize\r\n")
count, now = int(sock.recv(100)[1:]), time.time() * 1000
dead = count - sum(deadline > now for deadline in deadlines)
print(f"{count} keys in memory, {100 * dead // count} percent of them dead")
