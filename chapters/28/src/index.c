// index.c: commands by their names
//
// Owns the index. The table itself is in command.c, above all that it names.

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "server.h"

static const struct command *table; // of all commands
static size_t table_size;
static const struct command *by_name[k_command_slots];

// Returns the place in the index of commands from where on the name of `len` bytes is looked for: a
// hash of its bytes, in letters of any case.
static size_t command_hash(const uint8_t *name, size_t len) {
    uint32_t hash = 0;
    for (size_t i = 0; i < len; i++) {
        hash = hash * 31 + (name[i] | 0x20);
    }
    return hash % k_command_slots;
}

// Makes the table known, and fills the index of names: each command is in the first free slot from
// its place on.
void index_commands(const struct command *commands, size_t n) {
    table = commands;
    table_size = n;
    for (size_t i = 0; i < table_size; i++) {
        const char *name = table[i].name;
        size_t slot = command_hash((const uint8_t *)name, strlen(name));
        while (by_name[slot]) {
            slot = (slot + 1) % k_command_slots;
        }
        by_name[slot] = &table[i];
    }
}

// Returns how many commands there are, those of families too.
size_t num_commands(void) {
    return table_size;
}

// Returns the command in row `i` of the table.
const struct command *command_at(size_t i) {
    return &table[i];
}

// Returns the command with the name, NULL where there is none.
const struct command *find_command(const struct slice *name) {
    if (name->len > k_max_command) {
        return NULL;
    }
    size_t slot = command_hash(name->data, name->len);
    while (by_name[slot] && !is_word(name, by_name[slot]->name)) {
        slot = (slot + 1) % k_command_slots;
    }
    return by_name[slot];
}

// Returns the command of the family that the second word names, NULL where there is none.
const struct command *find_in_family(const struct command *family, const struct slice *word) {
    char name[2 * k_max_command];
    if (word->len > k_max_command) {
        return NULL;
    }
    int len = snprintf(name, sizeof(name), "%s|", family->name);
    memcpy(name + len, word->data, word->len);
    return find_command(&(struct slice){(const uint8_t *)name, (size_t)len + word->len});
}

// Writes the first `len` bytes of a name in capitals, which is how texts for people have it.
void in_capitals(char text[k_max_command + 1], const char *name, size_t len) {
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)toupper(name[i]);
    }
    text[len] = '\0';
}
