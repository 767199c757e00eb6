// Some rows of the kernel dual, and of every class only those rows that list it.
//
// A row lists its own class and those that have a dual or may get one: three or so of 26. Scores of other classes are not looked
// at, so they need no updates either, and a block of K a class, on the rows that list it, is all that a move reads:
// sum_k |A_k|^2 kernel values for the member lists A_k, where the rows' block of K would serve all classes of all rows. So far
// more rows of many classes fit a processor's cache, and a move costs |A_k| a class.
#pragma once

#include <cstdint>
#include <vector>

#include "carry.hpp"
#include "kernel_data.hpp"

namespace polymargin {

// The classes that rows look at: row r lists classes [begin[r], begin[r + 1]), its own class first.
struct ClassLists {
    std::vector<std::uint32_t> rows;
    std::vector<Size> begin;
    std::vector<Index> classes;

    void clear();
    void open(Size row);
    void close() { begin.push_back(classes.size()); }
};

class ClassBlocks {
public:
    struct Entry {
        Index k;
        std::uint32_t at;  // among the members of class k
    };

    explicit ClassBlocks(const KernelData& data);

    // Takes lists in the given order from position `at` on until their blocks are as large as a cache; returns the next position.
    Size take(const ClassLists& lists, const std::vector<std::uint32_t>& order, Size at);

    // Copies scores, duals and kernel values of what was taken: a visit finds all of a row side by side.
    void gather(const Poll& poll);

    Size size() const { return rows_.size(); }
    Size row(Size r) const { return rows_[r]; }
    double diagonal(Size r) const { return diagonal_[r]; }  // of K
    Size begin(Size r) const { return begin_[r]; }           // the first of its entries, that of its own class
    Size end(Size r) const { return begin_[r + 1]; }
    const Entry& entry(Size e) const { return entries_[e]; }
    double dual(Size e) const { return duals_[e]; }
    double score(Size e) const {
        const Entry& at = entries_[e];
        return scores_[e] + static_cast<double>(moved_[score_begin_[static_cast<Size>(at.k)] + at.at]);
    }

    void set_dual(Size e, double value) { duals_[e] = value; }

    // Adds a signed dual of the entry's row to scores, sums and offsets.
    void add(Size e, double step);

    // The duals as they are now join an average, which take_average makes the duals, and sums and offsets with them. Scores of the
    // blocks are those of the last duals then.
    void join_average();
    void take_average();

    // Puts the duals where they came from, and lists their signed steps.
    void put_back(Carry<float>& steps);

private:
    void shift(Index k, double step);  // sums and offsets
    void gather_rows(const Poll& poll);

    const KernelData data_;
    std::vector<std::uint32_t> rows_, taken_;
    std::vector<Size> begin_, counts_;
    std::vector<Entry> entries_;
    std::vector<std::vector<std::uint32_t>> members_;  // by class: numbers among rows_, then of columns of K
    std::vector<Size> score_begin_, block_begin_, width_;  // by class
    Size squares_ = 0, n_averaged_ = 0;
    std::vector<double> diagonal_;                           // by row
    std::vector<double> scores_, duals_, before_, average_;  // by entry
    std::vector<float> moved_;  // how far scores are from scores_: in single precision, as K is, which shrinks with the steps
    std::vector<float> blocks_, shared_;
};

}  // namespace polymargin
