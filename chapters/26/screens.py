# screens.py, chapter 26: a hundred screens that ask for a bid, or listen, for ten seconds
#
# python3 screens.py ask, or python3 screens.py listen
#
# Start the server with IDLE_TIMEOUT_MS=0: some of its clients are silent for longer than five seconds.
import os, socket, sys, time

def connect():
    return socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", 1234))))

def ask(sock, line):
    sock.sendall(line.encode() + b"\r\n")
    return sock.recv(65536).decode()

def used():
    info = dict(line.split(":", 1) for line in ask(office, "info").splitlines() if ":" in line)
    ticks = open("/proc/%s/stat" % info["process_id"]).read().split()[13:15]  # user, system
    return int(info["total_commands_processed"]), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

listen = sys.argv[1] == "listen"
office, screens = connect(), [connect() for _ in range(100)]
shown, news = [None] * 100, 0
for screen in screens if listen else []:
    ask(screen, "subscribe bids")
before, began = used(), time.monotonic()
for tick in range(10_000):  # each takes a millisecond
    if tick % 1000 == 0:
        ask(office, f"set bid {tick}")
        if listen:
            ask(office, f"publish bids {tick}")
    for i in range(tick % 10, 100, 10):
        if not listen or tick % 1000 < 10:
            answer = screens[i].recv(100) if listen else ask(screens[i], "get bid")
            news += answer != shown[i]
            shown[i] = answer
    time.sleep(max(0, began + tick / 1000 - time.monotonic()))
commands, seconds = (now - then for now, then in zip(used(), before))
print(f"{commands} commands, {news} times news, {seconds:.2f} s of the server's processor time")
