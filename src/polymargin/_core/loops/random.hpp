// A small generator owned by one fit (SplitMix64, Steele et al. 2014): no global state, so concurrent fits cannot
// disturb each other and the same seed gives the same bits on every platform.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace polymargin {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    // Uniform on [0, bound). The high half of a product: the bias of 2^-32 does not matter for visiting orders.
    std::uint64_t below(std::uint64_t bound) {
        if (bound >> 32) return next() % bound;
        return ((next() >> 32) * bound) >> 32;
    }

    // Shuffles whole blocks of items; the rest that fills no block keeps its place at the end.
    template <class T>
    void shuffle(std::vector<T>& items, std::uint64_t block) {
        for (std::uint64_t k = items.size() / block; k > 1; --k) {
            const std::uint64_t last = (k - 1) * block, other = below(k) * block;
            if (last == other) continue;
            for (std::uint64_t u = 0; u < block; ++u) std::swap(items[last + u], items[other + u]);
        }
    }

private:
    std::uint64_t state_;
};

}  // namespace polymargin
