// turn.c: what a connection may do in its turn
//
// Owns the count of its work. Work is what makes other clients wait, counted in bytes that come in or
// go out; work that moves none counts as the bytes that take as long. This file calls no other, so
// that all can call it.

#include "reply.h"

#include "server.h"

enum {
    k_max_compared = 100 << 20, // bytes that a pattern is compared with, beside 4 times all keys
};

static size_t work;             // done in this turn
static bool own;                // the turn is for one slow request alone
static bool own_before;         // what it is when the transaction is done
static bool refused;            // a request was not allowed what it asked for: it is slow
static bool asking;             // requests are asked for their prices, not done
static size_t asked;            // the prices so far
static size_t limit = SIZE_MAX; // of the work in this turn: while a transaction is done, it has one

// Begins the turn of a connection: one `own` of a slow request, or one like others.
void turn_begin(bool own_turn) {
    work = 0;
    own = own_turn;
    refused = false;
}

// Counts work that has been done.
void turn_add(size_t cost) {
    work += cost;
}

// Counts work that is no part of what a transaction was allowed: it is not cut short for that.
void turn_add_beside(size_t cost) {
    work += cost;
    limit += cost < SIZE_MAX - limit ? cost : SIZE_MAX - limit;
}

// Returns how much work the turn has had.
size_t turn_work(void) {
    return work;
}

// Asks for work before it is done. More than a whole turn is slow, and needs a turn of its own; that
// ends with the request. Where this returns false, the request is asked again in such a turn: its
// command must return at once, and have changed nothing; what it has replied is dropped.
bool may_take(size_t cost) {
    if (asking) {
        asked += cost;
        return false;
    }
    if ((cost > k_turn_work && !own) || work > limit || cost > limit - work) {
        refused = true;
        return false;
    }
    work += cost;
    return true;
}

// Has the request wait for a later turn, although it may not be slow.
void turn_refuse(void) {
    refused = true;
}

// Tells whether the turn has had its work.
bool turn_done(void) {
    return work >= k_turn_work;
}

// Tells whether the last request was refused what it asked for.
bool turn_refused(void) {
    return refused;
}

// From here on, may_take() allows nothing, and adds up what it is asked for.
void turn_ask(void) {
    asking = true;
    asked = 0;
}

// Tells whether requests are asked for their prices: what they look at is not used.
bool turn_asks(void) {
    return asking;
}

// Ends that. Returns the sum.
size_t turn_asked(void) {
    asking = false;
    return asked;
}

// From here on, may_take() allows `cost` in all, as in a turn of its own.
void turn_allow(size_t cost) {
    own_before = own;
    own = true;
    limit = work + cost;
}

// Ends that.
void turn_allowed(void) {
    own = own_before;
    limit = SIZE_MAX;
}

// Tells whether the last request of a transaction was refused what it asked for. It is not asked again.
bool turn_forgive(void) {
    bool was_refused = refused;
    refused = false;
    return was_refused;
}

// Returns how many bytes a request may compare with a pattern, where all keys have `keys_size`: few,
// until it has a turn of its own.
size_t compare_budget(size_t keys_size) {
    size_t budget = own ? k_max_compared + 4 * keys_size : k_turn_work,
           left = work < limit ? limit - work : 0;
    return budget < left ? budget : left;
}

// What a command does when its budget is used up, and what it has replied is taken back: it waits for a
// turn of its own, where the budget is larger. If it had that, it replies with an error.
void out_long_pattern(struct reply *out) {
    if (may_take(k_max_compared)) {
        reply_err(out, "ERR the pattern takes too long");
    }
}
