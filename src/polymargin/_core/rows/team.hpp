// Threads that share pieces of work of some microseconds each: between two of them they spin, they do not sleep.
//
// Nobody waits for a thread that has not begun: who is free takes the next piece, and the owner, who works too, waits only for
// pieces that are being worked on. Where threads have no processor of their own the owner does most of it alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "basics.hpp"

namespace polymargin {

class Team {
public:
    explicit Team(int n_threads);
    ~Team();  // joins
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    Size size() const { return workers_.size() + 1; }

    // piece(k) for every k < count, in any order, by any thread; returns when all are done. What a piece throws is thrown here.
    template <class Piece>
    void share(Size count, const Piece& piece) {
        if (workers_.empty() || count < 2) {
            for (Size k = 0; k < count; ++k) piece(k);
            return;
        }
        piece_ = &piece;
        call_ = [](const void* any, Size k) { (*static_cast<const Piece*>(any))(k); };
        run(count);
    }

private:
    void run(Size count);
    void work();           // until no piece is left
    void wait_for_work();  // what a worker does

    // The round, how many pieces it has and which is next, in one word: who takes a piece knows that its round is not over,
    // and with it that `piece_` is that of this round.
    static constexpr std::uint64_t next_bits = 16, next_mask = (std::uint64_t{1} << next_bits) - 1;
    static std::uint64_t taken(std::uint64_t round) { return round & next_mask; }
    static std::uint64_t pieces(std::uint64_t round) { return (round >> next_bits) & next_mask; }

    const void* piece_ = nullptr;
    void (*call_)(const void*, Size) = nullptr;
    alignas(64) std::atomic<std::uint64_t> round_{0};
    alignas(64) std::atomic<std::uint64_t> done_{0};
    alignas(64) std::atomic<bool> over_{false}, failed_{false};
    std::exception_ptr error_;
    std::vector<std::thread> workers_;
};

}  // namespace polymargin
