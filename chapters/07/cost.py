# cost.py, chapter 07: what a new key costs in a list
#
# Starts the server of this folder three times, sets new keys, a hundred in each write, and asks how much processor time
# it has used.
import os, socket, struct, subprocess

def string(text):
    return struct.pack("<I", len(text)) + text

def req(key):
    return string(struct.pack("<I", 3) + string(b"set") + string(key) + string(b"v"))

for n in (10000, 20000, 40000):
    server = subprocess.Popen(["./server"], env=dict(os.environ, PORT="0"), stderr=subprocess.PIPE, text=True)
    port = int(server.stderr.readline().split(":")[1])
    sock = socket.create_connection(("127.0.0.1", port))
    for i in range(0, n, 100):
        sock.sendall(b"".join(req(b"key%d" % k) for k in range(i, i + 100)))
        sock.recv(8 * 100, socket.MSG_WAITALL)
    server.kill()
    used = os.wait4(server.pid, 0)[2]
    seconds = used.ru_utime + used.ru_stime
    print(f"{n:6} new keys: {seconds:5.2f} seconds, {seconds * 1e9 / (n * n / 2):.1f} nanoseconds a comparison")
