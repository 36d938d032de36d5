// intrusive.h: built in chapter 08
//
// An intrusive structure links nodes that are embedded in the payload, not payloads:
//
//   struct entry:  [ hnode | val_len | bytes ... ]      the hashtable knows of the hnode alone
//                    ^
//                    pointer to the member -> container_of() -> pointer to the struct
//
// So one structure serves any payload, one payload can be in several structures, and none of them
// allocates.
#pragma once

#include <stddef.h>

// The struct of type `type` whose `member` lies at `ptr`. A pointer to const leads to a const struct;
// a pointer to anything but such a member does not compile.
#define container_of(ptr, type, member) \
    _Generic((ptr), \
        __typeof__(((type *)0)->member) *: \
            (type *)((char *)(ptr) - offsetof(type, member)), \
        const __typeof__(((type *)0)->member) *: \
            (const type *)((const char *)(ptr) - offsetof(type, member)))
