#include "core/planner/partition/solvers/nested.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/check.h"

namespace dpipe {
namespace {

using Devices = std::vector<std::pair<LayerRange, LayerRange>>;

constexpr int kWordBits = 64;

class Solver {
 public:
  explicit Solver(const NestedProblem& problem)
      : p_(problem),
        count_(problem.num_devices),
        front_(problem.num_front),
        back_(problem.is_shared ? problem.num_front : problem.num_back),
        is_large_(int64_t{count_} * front_ * back_ > problem.max_ranges) {}

  NestedSolution Run(int max_layers_for_any_ratio) {
    ReadTimes();
    Nanos most = 1, low = std::numeric_limits<Nanos>::max();
    for (int d = 0; d < count_; ++d) {
      const Nanos all = FrontTime(d, 0, front_) + (p_.is_shared ? 0 : BackTime(d, 0, back_));
      most = std::max(most, 2 * all);
      low = std::min(low, all / count_);
    }
    if (!IsPlausible(most)) return {};
    Nanos high = low;
    for (Nanos step = low / 64 + 1; !IsPlausible(high); step *= 2) {
      low = high + 1;
      high = std::min(most, high + step);
    }
    // Stop at a part in 4096: the exact search does the rest.
    while (high - low > low / 4096) {
      const Nanos middle = low + (high - low) / 2;
      IsPlausible(middle) ? high = middle : low = middle + 1;
    }
    if (is_large_) return Direct(low, most + LargestLink());
    const bool any = front_ + back_ <= 2 * max_layers_for_any_ratio;
    return Least(low, any ? most + LargestLink() : 4 * low);
  }

 private:
  void ReadTimes() {
    if (is_large_) return ReadSums();
    front_times_.assign(static_cast<size_t>(count_) * (front_ + 1) * (front_ + 1), 0);
    back_times_.assign(static_cast<size_t>(count_) * (back_ + 1) * (back_ + 1), 0);
    for (int d = 0; d < count_; ++d) {
      for (int i = 0; i < front_; ++i) {
        for (int j = i + 1; j <= front_; ++j) {
          front_times_[(d * (front_ + 1) + i) * (front_ + 1) + j] = p_.front_time(d, {i, j});
        }
      }
      for (int i = 0; i < back_; ++i) {
        for (int j = i + 1; j <= back_; ++j) {
          back_times_[(d * (back_ + 1) + i) * (back_ + 1) + j] = p_.back_time(d, {i, j});
        }
      }
    }
  }
  // Reads prefix sums of the layers' times, by device.
  void ReadSums() {
    front_times_.assign(static_cast<size_t>(count_) * (front_ + 1), 0);
    back_times_.assign(static_cast<size_t>(count_) * (back_ + 1), 0);
    for (int d = 0; d < count_; ++d) {
      Nanos* const front = &front_times_[d * (front_ + 1)];
      Nanos* const back = &back_times_[d * (back_ + 1)];
      for (int i = 0; i < front_; ++i) front[i + 1] = front[i] + p_.front_time(d, {i, i + 1});
      for (int i = 0; i < back_; ++i) back[i + 1] = back[i] + p_.back_time(d, {i, i + 1});
    }
  }
  Nanos FrontTime(int d, int i, int j) const {
    if (is_large_) return front_times_[d * (front_ + 1) + j] - front_times_[d * (front_ + 1) + i];
    return front_times_[(d * (front_ + 1) + i) * (front_ + 1) + j];
  }
  Nanos BackTime(int d, int i, int j) const {
    if (is_large_) return back_times_[d * (back_ + 1) + j] - back_times_[d * (back_ + 1) + i];
    return back_times_[(d * (back_ + 1) + i) * (back_ + 1) + j];
  }
  Nanos FrontLink(int d, int cut) const { return p_.front_link ? p_.front_link(d, cut) : 0; }
  Nanos BackLink(int d, int cut) const { return p_.back_link ? p_.back_link(d, cut) : 0; }

  Nanos LargestLink() const {
    Nanos largest = 0;
    for (int d = 0; d + 1 < count_; ++d) {
      for (int c = 1; c < front_; ++c) largest = std::max(largest, FrontLink(d, c));
      for (int c = 1; c < back_; ++c) largest = std::max(largest, BackLink(d, c));
    }
    return largest;
  }

  // Solves a large problem.
  NestedSolution Direct(Nanos low, Nanos high) {
    NestedSolution solution;
    for (Nanos t = low; t <= high; t += t / 256 + 1) {
      if (!IsPlausible(t) || !Follow(t, &solution.devices)) continue;
      solution.largest = Largest(solution.devices);
      return solution;
    }
    return {};
  }

  // Places device after device. Each takes as many layers as possible, so that h of the next device
  // guarantees that the rest can be placed. Returns false if that fails.
  bool Follow(Nanos t, Devices* devices) const {
    devices->clear();
    int i = 0, j = back_;
    for (int d = 0; d < count_; ++d) {
      const int inner = count_ - 1 - d;  // remaining devices, each with two ranges
      const int last_next = p_.is_shared ? j - 1 : front_ - inner;
      int best_next = -1, best_begin = -1;
      double best = 0;
      for (int next = i + 1; next <= last_next && FrontTime(d, i, next) <= t; ++next) {
        if (inner > 0 && FrontLink(d, next) > t) continue;
        if (inner == 0 && !p_.is_shared && next != front_) continue;
        const int begin = LowestBegin(t, d, {i, next}, j);
        if (begin < 0) continue;
        const double uneven = Unevenness(d, {i, next}, {begin, j});
        if (best_next >= 0 && uneven >= best) continue;
        best_next = next;
        best_begin = begin;
        best = uneven;
      }
      if (best_next < 0) return false;
      devices->push_back({{i, best_next}, {best_begin, j}});
      i = best_next;
      j = best_begin;
    }
    return p_.is_shared ? i == j : i == front_ && j == 0;
  }

  // Returns how unlike the two ranges are: of one chain, the longer one's time; of two chains, the
  // difference between the parts of each that are left for the other devices.
  double Unevenness(int d, LayerRange front, LayerRange back) const {
    if (p_.is_shared) {
      return static_cast<double>(
          std::max(FrontTime(d, front.begin, front.end), BackTime(d, back.begin, back.end)));
    }
    const auto part = [](Nanos left, Nanos all) {
      return static_cast<double>(left) / static_cast<double>(std::max<Nanos>(1, all));
    };
    return std::abs(part(FrontTime(d, front.end, front_), FrontTime(d, 0, front_)) -
                    part(BackTime(d, 0, back.begin), BackTime(d, 0, back_)));
  }

  // Returns the lowest beginning of device d's range at the back, so that it has the most layers;
  // -1 if there is none.
  int LowestBegin(Nanos t, int d, LayerRange front, int j) const {
    const int inner = count_ - 1 - d;
    const int meet = p_.is_shared ? front.end : 0;
    const int highest = inner == 0 ? meet : std::min(h_[d + 1][front.end], j - 1);
    const int lowest = meet + (p_.is_shared ? 2 : 1) * inner;
    const Nanos left = t - FrontTime(d, front.begin, front.end);
    int found = -1;
    for (int begin = highest; begin >= lowest && BackTime(d, begin, j) <= left; --begin) {
      if (inner > 0 && BackLink(d, begin) > t) continue;
      if (p_.fits(d, front, {begin, j})) found = begin;
    }
    return found;
  }

  // Finds the minimum T in [low, high] with a solution.
  NestedSolution Least(Nanos low, Nanos high) {
    NestedSolution best;
    for (Nanos step = low / 512 + 1, t = low;; step *= 2) {
      if (Find(t, best)) break;
      if (t >= high) return {};
      low = t + 1;
      t = std::min(high, t + step);
    }
    while (low < best.largest) {
      const Nanos middle = low + (best.largest - low) / 2;
      if (!Find(middle, best)) low = middle + 1;
    }
    return best;
  }

  // Fills h for `t`. Returns true if no layers are left over.
  bool IsPlausible(Nanos t) {
    h_.assign(count_ + 1, std::vector<int>(front_ + 1, -1));
    for (int i = 0; i <= front_; ++i) {
      if (p_.is_shared) h_[count_][i] = i;
      if (!p_.is_shared && i == front_) h_[count_][i] = 0;
    }
    for (int d = count_ - 1; d >= 0; --d) {
      for (int i = 0; i <= front_; ++i) {
        for (int next = i; next <= front_; ++next) {
          const Nanos left = t - FrontTime(d, i, next);
          if (left < 0) break;
          const int begin = h_[d + 1][next];
          if (begin < 0) continue;
          int reach = std::max(begin, h_[d][i]);
          if (reach > begin && BackTime(d, begin, reach) > left) continue;
          while (reach < back_ && BackTime(d, begin, reach + 1) <= left) ++reach;
          while (reach > std::max(begin, h_[d][i]) && !MayFit(d, {i, next}, begin, reach, left)) {
            --reach;
          }
          h_[d][i] = std::max(h_[d][i], reach);
        }
      }
    }
    return h_[0][0] >= back_;
  }

  // True if device d has memory for the front and for layers up to `end` at the back from `begin`
  // or from an earlier layer.
  bool MayFit(int d, LayerRange front, int begin, int end, Nanos left) const {
    if (p_.fits(d, front, {begin, end})) return true;
    if (p_.memory_grows) return false;
    const int first = p_.is_shared ? front.end : 0;
    for (int from = begin - 1; from >= first && BackTime(d, from, end) <= left; --from) {
      if (p_.fits(d, front, {from, end})) return true;
    }
    return false;
  }

  // Finds a solution with at most `t`. Returns false if there is none.
  bool Find(Nanos t, NestedSolution& solution) {
    if (!IsPlausible(t)) return false;
    words_ = back_ / kWordBits + 1;
    reached_.assign(static_cast<size_t>(count_ + 1) * (front_ + 1) * words_, 0);
    SetReached(0, 0, back_);
    for (int d = 0; d < count_; ++d) Advance(t, d);
    for (int i = 0; i <= front_; ++i) {
      const int j = p_.is_shared ? i : 0;
      if (!IsReached(count_, i, j)) continue;
      solution.devices = Backtrack(t, i, j);
      solution.largest = Largest(solution.devices);
      return true;
    }
    return false;
  }

  // Computes the states after device d from the states reached before it.
  void Advance(Nanos t, int d) {
    const bool last = d == count_ - 1;
    std::vector<uint64_t> open(words_,
                               last ? ~uint64_t{0} : 0);  // cuts at the back that d may make
    for (int low = 1; !last && low < back_; ++low) {
      if (BackLink(d, low) <= t) open[low / kWordBits] |= uint64_t{1} << (low % kWordBits);
    }
    for (int next = 1; next <= front_; ++next) {
      if (last && !p_.is_shared && next != front_) continue;
      if (!last && FrontLink(d, next) > t) continue;
      const int meet = p_.is_shared ? next : 0;
      const int highest = last ? meet : h_[d + 1][next];
      if (highest < meet) continue;
      for (int i = next - 1; i >= 0 && FrontTime(d, i, next) <= t; --i) {
        if (AllReached(d + 1, next, meet, highest, open)) break;
        const Nanos left = t - FrontTime(d, i, next);
        for (int j = meet + 1; j <= back_; ++j) {
          if (!IsReached(d, i, j)) continue;
          const int top = std::min(j - 1, highest);
          const int bottom = LowestCut(d, meet, top, j, left);
          if (!last || bottom == meet) Reach(d, {i, next}, bottom, top, j, open);
        }
      }
    }
  }

  // True if every open cut in [bottom, top] is marked.
  bool AllReached(int d, int i, int bottom, int top, const std::vector<uint64_t>& open) const {
    for (int w = bottom / kWordBits; w <= top / kWordBits; ++w) {
      if ((open[w] & ~reached_[Row(d, i) + w] & WordMask(w, bottom, top)) != 0) return false;
    }
    return true;
  }

  // Returns the bits of word w for [bottom, top].
  static uint64_t WordMask(int w, int bottom, int top) {
    uint64_t mask = ~uint64_t{0};
    if (w == bottom / kWordBits) mask &= ~uint64_t{0} << (bottom % kWordBits);
    if (w == top / kWordBits) mask &= ~uint64_t{0} >> (kWordBits - 1 - top % kWordBits);
    return mask;
  }

  // Returns the minimum cut in [from, top] from which device d needs at most `left` up to j; top +
  // 1 if there is none.
  int LowestCut(int d, int from, int top, int j, Nanos left) const {
    int end = top + 1;
    while (from < end) {
      const int middle = from + (end - from) / 2;
      BackTime(d, middle, j) <= left ? end = middle : from = middle + 1;
    }
    return end;
  }

  // Marks the open cuts in [bottom, top] that fit and are not marked yet, one word at a time.
  void Reach(int d, LayerRange front, int bottom, int top, int j,
             const std::vector<uint64_t>& open) {
    if (bottom > top) return;
    uint64_t* reached = &reached_[Row(d + 1, front.end)];
    for (int w = bottom / kWordBits; w <= top / kWordBits; ++w) {
      uint64_t fresh = open[w] & ~reached[w] & WordMask(w, bottom, top);
      for (; fresh != 0; fresh &= fresh - 1) {
        const int low = w * kWordBits + __builtin_ctzll(fresh);
        if (p_.fits(d, front, {low, j})) reached[w] |= fresh & -fresh;
      }
    }
  }

  Devices Backtrack(Nanos t, int i, int j) {
    Devices devices(count_);
    for (int d = count_ - 1; d >= 0; --d) {
      const auto [from, to] = Before(t, d, i, j);
      devices[d] = {{from, i}, {j, to}};
      i = from;
      j = to;
    }
    return devices;
  }

  // Returns the first reached state from which device d gets to the reached state (i, j).
  std::pair<int, int> Before(Nanos t, int d, int i, int j) const {
    for (int from = 0; from < i; ++from) {
      for (int to = j + 1; to <= back_; ++to) {
        if (!IsReached(d, from, to)) continue;
        if (FrontTime(d, from, i) + BackTime(d, j, to) > t) continue;
        if (p_.fits(d, {from, i}, {j, to})) return {from, to};
      }
    }
    DPIPE_CHECK(false) << "state (" << i << ", " << j << ") of device " << d << " has no origin";
    return {0, 0};
  }

  size_t Row(int d, int i) const { return (static_cast<size_t>(d) * (front_ + 1) + i) * words_; }
  bool IsReached(int d, int i, int j) const {
    return reached_[Row(d, i) + j / kWordBits] >> (j % kWordBits) & 1;
  }
  void SetReached(int d, int i, int j) {
    reached_[Row(d, i) + j / kWordBits] |= uint64_t{1} << (j % kWordBits);
  }

  Nanos Largest(const Devices& devices) const {
    Nanos largest = 0;
    for (int d = 0; d < count_; ++d) {
      const auto& [front, back] = devices[d];
      largest = std::max(largest,
                         FrontTime(d, front.begin, front.end) + BackTime(d, back.begin, back.end));
      if (d + 1 == count_) continue;
      largest = std::max({largest, FrontLink(d, front.end), BackLink(d, back.begin)});
    }
    return largest;
  }

  const NestedProblem& p_;
  const int count_;
  const int front_;
  const int back_;
  const bool is_large_;
  std::vector<Nanos> front_times_, back_times_;  // [d][begin][end]; if large, [d][end]
  std::vector<std::vector<int>> h_;              // [d][i]
  std::vector<uint64_t> reached_;                // [d][i], one bit per j
  int words_ = 1;                                // per row of reached_
};

}  // namespace

NestedSolution SolveNested(const NestedProblem& problem, int max_layers_for_any_ratio) {
  DPIPE_CHECK(problem.num_devices >= 1);
  return Solver(problem).Run(max_layers_for_any_ratio);
}

}  // namespace dpipe
