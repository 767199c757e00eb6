// Threads that share pieces of work of some microseconds each: between two of them they spin, they do not sleep.
//
// A thread takes its own pieces first, those whose number modulo the threads is its own, so that what these need stays in its caches.
// Nobody waits for a thread that has not begun: who is free takes any piece, and the owner, who works too, waits only for pieces that
// are being worked on. Where threads have no processor of their own the owner does most of it alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "rows/basics.hpp"

namespace polymargin {

class Team {
public:
    explicit Team(int n_threads);
    ~Team();  // joins
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    Size size() const { return size_; }

    // piece(k) for every k < count, in any order, by any thread; returns when all are done. What a piece throws is thrown here.
    template <class Piece>
    void share(Size count, const Piece& piece) {
        if (size_ == 1 || count < 2) {
            for (Size k = 0; k < count; ++k) piece(k);
            return;
        }
        piece_ = &piece;
        call_ = [](const void* any, Size k) { (*static_cast<const Piece*>(any))(k); };
        for (first_ = 0; first_ < count; first_ += most_pieces) run(std::min(count - first_, most_pieces));
    }

private:
    static constexpr Size most_pieces = 32;  // of a round

    void run(Size count);
    Size work(Size thread);           // until no piece is left; returns how many it did
    void do_piece(Size piece);
    void wait_for_work(Size thread);  // what a worker does

    // The round, and in its lower half a bit for every piece that nobody has taken, in one word: who takes a piece knows that its round
    // is not over, and with it that `piece_` is that of this round.
    static std::uint32_t left(std::uint64_t round) { return static_cast<std::uint32_t>(round); }
    Size choose(std::uint32_t left, Size thread) const;

    const void* piece_ = nullptr;
    void (*call_)(const void*, Size) = nullptr;
    Size first_ = 0;  // piece of this round
    alignas(64) std::atomic<std::uint64_t> round_{0};
    alignas(64) std::atomic<std::uint64_t> done_{0};  // pieces, by others than the owner, of all rounds
    alignas(64) std::atomic<bool> over_{false}, failed_{false};
    std::exception_ptr error_;
    Size size_ = 1;
    std::vector<std::thread> workers_;
};

}  // namespace polymargin
