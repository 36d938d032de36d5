// Asks a server through hiredis: PORT says where. Prints what it is not pleased with, and then fails.
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int g_wrong;

static void check(int holds, const char *what) {
    if (!holds) {
        printf("%s\n", what);
        g_wrong++;
    }
}

// A reply that is a text of this type.
static void is_text(redisReply *reply, int type, const char *text, const char *what) {
    check(reply && reply->type == type && strcmp(reply->str, text) == 0, what);
    freeReplyObject(reply);
}

static void is_integer(redisReply *reply, long long value, const char *what) {
    check(reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == value, what);
    freeReplyObject(reply);
}

static void strings(redisContext *conn) {
    is_text(redisCommand(conn, "PING"), REDIS_REPLY_STATUS, "PONG", "ping");
    is_text(redisCommand(conn, "SET foo bar"), REDIS_REPLY_STATUS, "OK", "set");
    is_text(redisCommand(conn, "GET %s", "foo"), REDIS_REPLY_STRING, "bar", "get");
    redisReply *reply = redisCommand(conn, "SET %b %b", "a\0b", (size_t)3, "x\r\n\0y", (size_t)5);
    is_text(reply, REDIS_REPLY_STATUS, "OK", "set of bytes");
    reply = redisCommand(conn, "GET %b", "a\0b", (size_t)3);
    check(reply && reply->len == 5 && memcmp(reply->str, "x\r\n\0y", 5) == 0, "get of bytes");
    freeReplyObject(reply);
    is_text(redisCommand(conn, "SET e %s", ""), REDIS_REPLY_STATUS, "OK", "set to nothing");
    is_text(redisCommand(conn, "GET e"), REDIS_REPLY_STRING, "", "get of nothing");
    reply = redisCommand(conn, "GET nokey");
    check(reply && reply->type == REDIS_REPLY_NIL, "get of no key");
    freeReplyObject(reply);
    is_integer(redisCommand(conn, "INCR counter"), 1, "incr");
    is_integer(redisCommand(conn, "INCRBY counter %d", 41), 42, "incrby");
    is_text(redisCommand(conn, "INCR foo"),
            REDIS_REPLY_ERROR,
            "ERR value is not an integer or out of range",
            "incr of a text");
    is_text(redisCommand(conn, "GET"),
            REDIS_REPLY_ERROR,
            "ERR wrong number of arguments for 'get' command",
            "get without a key");
}

static void arrays(redisContext *conn) {
    is_integer(redisCommand(conn, "ZADD z 1 one 2 two 3 three"), 3, "zadd");
    redisReply *reply = redisCommand(conn, "ZRANGE z 0 -1");
    check(reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
              strcmp(reply->element[2]->str, "three") == 0,
          "zrange");
    freeReplyObject(reply);
    reply = redisCommand(conn, "MGET foo nokey z");
    check(reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
              reply->element[0]->type == REDIS_REPLY_STRING &&
              reply->element[1]->type == REDIS_REPLY_NIL &&
              reply->element[2]->type == REDIS_REPLY_NIL,
          "mget");
    freeReplyObject(reply);
    reply = redisCommand(conn, "KEYS none*");
    check(reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 0, "keys of none");
    freeReplyObject(reply);
}

static void pipeline(redisContext *conn, int n) {
    for (int i = 0; i < n; i++) {
        redisAppendCommand(conn, "SET key:%d %d", i, i);
        redisAppendCommand(conn, "GET key:%d", i);
    }
    for (int i = 0; i < n; i++) {
        void *reply;
        char number[32];
        snprintf(number, sizeof(number), "%d", i);
        check(redisGetReply(conn, &reply) == REDIS_OK, "a reply in a pipeline");
        is_text(reply, REDIS_REPLY_STATUS, "OK", "set in a pipeline");
        check(redisGetReply(conn, &reply) == REDIS_OK, "a reply in a pipeline");
        is_text(reply, REDIS_REPLY_STRING, number, "get in a pipeline");
    }
}

static void large(redisContext *conn, size_t size) {
    char *value = malloc(size);
    memset(value, 'x', size);
    is_text(redisCommand(conn, "SET large %b", value, size), REDIS_REPLY_STATUS, "OK", "set large");
    redisReply *reply = redisCommand(conn, "GET large");
    check(reply && reply->len == size && memcmp(reply->str, value, size) == 0, "get large");
    freeReplyObject(reply);
    free(value);
}

// Only newer versions of hiredis know it.
static void version_3(redisContext *conn) {
#ifdef REDIS_REPLY_MAP
    redisReply *reply = redisCommand(conn, "HELLO 3");
    check(reply && reply->type == REDIS_REPLY_MAP && reply->elements == 14, "hello 3");
    freeReplyObject(reply);
    reply = redisCommand(conn, "ZSCORE z two");
    check(reply && reply->type == REDIS_REPLY_DOUBLE && reply->dval == 2.0, "zscore in version 3");
    freeReplyObject(reply);
    reply = redisCommand(conn, "GET nokey");
    check(reply && reply->type == REDIS_REPLY_NIL, "get of no key in version 3");
    freeReplyObject(reply);
#else
    (void)conn;
#endif
}

int main(void) {
    redisContext *conn = redisConnect("127.0.0.1", atoi(getenv("PORT")));
    if (!conn || conn->err) {
        printf("cannot connect\n");
        return 1;
    }
    strings(conn);
    arrays(conn);
    pipeline(conn, 5000);
    large(conn, 8 << 20);
    version_3(conn);
    is_text(redisCommand(conn, "QUIT"), REDIS_REPLY_STATUS, "OK", "quit");
    // The end, or a reset, where the server was gone before this request came.
    int refused = redisCommand(conn, "PING") == NULL;
    check(refused && (conn->err == REDIS_ERR_EOF || conn->err == REDIS_ERR_IO),
          "the end behind quit");
    redisFree(conn);
    return g_wrong > 0;
}
