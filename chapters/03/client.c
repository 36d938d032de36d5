// client.c, chapter 03: hello client
//
// Connects, says hello, reads once and prints what came.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"

int main(void) {
    hold_std_fds();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) {
        die("socket");
    }

    struct sockaddr_in addr = {
        .sin_family = AF_INET,
        .sin_port = htons(env_port()),
        .sin_addr = env_ip("HOST"),
    };
    if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        die("connect %s:%u", inet_ntoa(addr.sin_addr), (unsigned)ntohs(addr.sin_port));
    }

    const char wbuf[] = "hello";
    if (write(fd, wbuf, strlen(wbuf)) < 0) {
        die("write");
    }

    char rbuf[64];
    ssize_t n = read(fd, rbuf, sizeof(rbuf));
    if (n < 0) {
        die("read");
    }
    if (n == 0) {
        msg("the server closed the connection without an answer");
        return 1;
    }
    printf("server says: %.*s\n", (int)n, rbuf);
    flush_stdout();
    close(fd);
}
