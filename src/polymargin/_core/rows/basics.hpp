// What all of the core shares: index types, the polling of signals, padding and prefetching.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#if defined(__GNUC__) || defined(__clang__)
#define PM_PREFETCH(address) __builtin_prefetch(address)
#define PM_EFFECT() __asm__ volatile("")  // GCC leaves out calls of functions that do nothing but prefetch
#define PM_INLINE inline __attribute__((always_inline))  // where a call costs as much as what is called
#else
#define PM_INLINE inline
#define PM_PREFETCH(address) ((void)0)
#define PM_EFFECT() ((void)0)
#endif

namespace polymargin {

using Index = std::int32_t;  // classes, columns
using Size = std::size_t;    // rows, features, stored entries

using Poll = std::function<void()>;  // called every few milliseconds; throws to stop a loop

constexpr double infinity = std::numeric_limits<double>::infinity();

// Squares of centred vectors are sums over the raw ones, less what the means add. Where that leaves no more than this part of
// them, columns are far from 0 and little of it is right: then the entries are centred first.
constexpr double cancelled = 1e-6;

// Asks for the cache lines of a range. Rows are visited at random, so the hardware does not see the next one coming; very
// long rows are left to it after their beginning.
inline void prefetch_range(const void* begin, Size bytes) {
    constexpr Size line = 64, most = 64 * line;
    const char* p = static_cast<const char*>(begin);
    for (Size k = 0; k < bytes && k < most; k += line) PM_PREFETCH(p + k);
    PM_EFFECT();
}

// Rounds up to a whole number of 32-byte vectors of doubles.
inline Size padded(Size count) { return (count + 3) & ~Size{3}; }

}  // namespace polymargin
