// settings.h: what the server is told, by clients and when it starts
//
// A part of the table of contents in server.h, which includes it.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct reply;
struct request;
struct slice;

enum {
    k_max_value = PATH_MAX, // bytes of a setting's value as text
};

// config.c, above t_string.c
void do_config_get(struct request *req, struct reply *out);
void do_config_set(struct request *req, struct reply *out);
const char *config_name(size_t i);
const char *config_start(const struct slice *name, const struct slice *value, bool trial,
                         char text[k_max_value]);

// settings.c, above stop.c
void settings_start(int argc, char **argv);
