// Threads that work side by side.
#include "team.hpp"

#include <algorithm>
#include <limits>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define PM_PAUSE() _mm_pause()
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define PM_PAUSE() __asm__ volatile("yield")
#else
#define PM_PAUSE() ((void)0)
#endif

namespace polymargin {
namespace {

constexpr std::uint64_t last_meeting = std::numeric_limits<std::uint64_t>::max();
constexpr int soon = 1000;  // turns for which others are waited for that have not begun: some ten microseconds

// Spins; who has spun for long lets others have the processor now and then.
class Patience {
public:
    void wait() {
        PM_PAUSE();
        if (++turns_ > 4096) std::this_thread::yield();
    }
    bool is_short() const { return turns_ < soon; }

private:
    int turns_ = 0;
};

}  // namespace

Team::Team(int n_threads) : meetings_(new Counter[static_cast<Size>(std::max(1, n_threads))]) {
    try {
        for (int t = 1; t < n_threads; ++t) workers_.emplace_back([this] { wait_for_work(); });
    } catch (...) {  // as many as the system has given
    }
    size_ = workers_.size() + 1;
}

Team::~Team() {
    over_.store(true, std::memory_order_release);
    for (auto& worker : workers_) worker.join();
}

bool Team::begin() {
    for (Size t = 0; t < size_; ++t) meetings_[t].value.store(0, std::memory_order_relaxed);
    const std::uint64_t called = (state_.value.load(std::memory_order_relaxed) / one_call + 1) * one_call;
    state_.value.store(called | open, std::memory_order_release);
    for (Patience patience; patience.is_short() && come(state_.value.load(std::memory_order_relaxed)) + 1 < size_;) patience.wait();
    const Size of = come(state_.value.fetch_and(~open, std::memory_order_acq_rel)) + 1;
    if (of == 1) return false;
    do_piece(0, of);
    for (Size t = 1; t < of; ++t) {
        for (Patience patience; meetings_[t].value.load(std::memory_order_acquire) != last_meeting;) patience.wait();
    }
    if (broken_.exchange(false, std::memory_order_relaxed)) std::rethrow_exception(error_);
    return true;
}

void Team::do_piece(Size thread, Size of) {
    try {
        call_(piece_, thread, of);
    } catch (const Broken&) {
    } catch (...) {
        if (!broken_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
    }
    meetings_[thread].value.store(last_meeting, std::memory_order_release);
}

void Team::meet(Size thread, Size of) {
    const std::uint64_t here = meetings_[thread].value.load(std::memory_order_relaxed) + 1;
    meetings_[thread].value.store(here, std::memory_order_release);
    for (Size t = 0; t < of; ++t) {
        for (Patience patience; meetings_[t].value.load(std::memory_order_acquire) < here;) patience.wait();
    }
    if (broken_.load(std::memory_order_relaxed)) throw Broken();
}

void Team::wait_for_work() {
    std::uint64_t done = 0;  // the last call
    for (Patience patience; !over_.load(std::memory_order_acquire);) {
        std::uint64_t state = state_.value.load(std::memory_order_acquire);
        if (!(state & open) || state / one_call == done) {
            patience.wait();
            continue;
        }
        if (!state_.value.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) continue;
        const Size thread = come(state) + 1;
        done = state / one_call;
        for (patience = Patience(); (state = state_.value.load(std::memory_order_acquire)) & open;) patience.wait();
        do_piece(thread, come(state) + 1);
        patience = Patience();
    }
}

}  // namespace polymargin
