# crowd.py, chapter 26: what one message to many listeners costs: memory, and how long a ping waits meanwhile
#
# python3 crowd.py LISTENERS SIZE [MESSAGES]
import os, socket, sys, time

def connect():
    return socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", 1234))))

def ask(sock, line):
    sock.sendall(line + b"\r\n")
    return sock.recv(65536)

def memory():
    pid = ask(other, b"info").split(b"process_id:")[1].split()[0].decode()
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if "VmRSS" in line)

listeners, size, times = map(int, [*sys.argv[1:], 1][:3])
speaker, other = connect(), connect()
crowd = [connect() for _ in range(listeners)]
for sock in crowd:
    ask(sock, b"subscribe bids")
before, longest = memory(), 0
for _ in range(times):
    speaker.sendall(b"*3\r\n$7\r\npublish\r\n$4\r\nbids\r\n$%d\r\n%s\r\n" % (size, b"x" * size))
end = time.monotonic() + 1
while (began := time.monotonic()) < end:
    ask(other, b"ping")
    longest = max(longest, time.monotonic() - began)
print(f"{(memory() - before) / 1024:.1f} MiB more, longest wait of a ping: {longest * 1000:.1f} ms")
