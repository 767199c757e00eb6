// Threads that work side by side for some microseconds at a time, and meet in between: while they wait they spin, they do not sleep.
//
// Nobody waits for a thread that has not begun: a piece of work is for the owner and those who are ready at once, and where nobody is,
// as on processors that have other things to do, the owner hears of it. Those who have begun do wait for each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
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

    // piece(thread, of), by the owner, thread 0, and the others that are ready; returns when all are done. Whether there were any: else
    // nothing is done. What a piece throws is thrown here.
    template <class Piece>
    bool work(const Piece& piece) {
        piece_ = &piece;
        call_ = [](const void* any, Size thread, Size of) { (*static_cast<const Piece*>(any))(thread, of); };
        return size_ > 1 && begin();
    }

    // In a piece: waits until all threads have come as far.
    void meet(Size thread, Size of);

private:
    struct alignas(64) Counter {
        std::atomic<std::uint64_t> value{0};
    };
    struct Broken {};  // another thread's piece has thrown: nobody is waited for

    // The number of the call, whether it is open to those who are ready, and how many have come, in one word.
    static constexpr std::uint64_t open = 1u << 16, one_call = 1u << 17;
    static Size come(std::uint64_t state) { return static_cast<Size>(state & (open - 1)); }

    bool begin();
    void do_piece(Size thread, Size of);
    void wait_for_work();  // what a worker does

    const void* piece_ = nullptr;
    void (*call_)(const void*, Size, Size) = nullptr;
    Counter state_;
    std::unique_ptr<Counter[]> meetings_;  // that a thread has come to; the last one when its piece is done
    alignas(64) std::atomic<bool> over_{false}, broken_{false};
    std::exception_ptr error_;
    Size size_ = 1;
    std::vector<std::thread> workers_;
};

}  // namespace polymargin
