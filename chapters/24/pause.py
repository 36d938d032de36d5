# pause.py, chapter 24: how long a client waits while a million keys die
#
# It is silent for longer than the five seconds after which a server hangs up: set its IDLE_TIMEOUT_MS to 0.
import os, socket, time
sock = socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", 1234))))
began = time.time()
one_oclock = began + 15
loaded = 0
while loaded < 1_000_000 and time.time() < one_oclock - 2:  # a slow server gets fewer
    sock.sendall(b"".join(b"set key:%d v pxat %d\r\n" % (loaded + k, one_oclock * 1000) for k in range(1000)))
    sock.recv(5000, socket.MSG_WAITALL)  # a thousand times "+OK\r\n"
    loaded += 1000
print(f"{loaded} keys loaded in {time.time() - began:.1f} s")
time.sleep(max(0, one_oclock - time.time() - 2))
waits, left = [0, 0], {}
while (after := time.time() - one_oclock) < 10:
    began = time.monotonic()
    sock.sendall(b"dbsize\r\n")
    count = int(sock.recv(100)[1:])
    wait = (time.monotonic() - began) * 1000
    waits[after > 0] = max(waits[after > 0], wait)
    left[int(after)] = count
print(f"longest wait: {waits[0]:.1f} ms while they live, {waits[1]:.1f} ms while they die")
print("in memory after 1, 2, 5 and 10 s:", *(left.get(s - 1, "?") for s in (1, 2, 5, 10)))
