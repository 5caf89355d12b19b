#include "core/schedule/tuning/tabu_order.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "core/schedule/tuning/pass_sequences.h"

namespace dpipe {
namespace {

// From std::minstd_rand: the standard fixes its numbers, and it is faster than a RandomStream. Each
// move draws several.
constexpr uint32_t kSeed = 20261122;
constexpr int kNone = PassSequences::kNone;
// The maximum distance of a move, in passes of the device.
constexpr int kMaxDistance = 24;
// The number of steps for which a pair is tabu is in [kTenure, kTenure + kTenureRange).
constexpr int kTenure = 12, kTenureRange = 24;
// The number of steps without improvement after which the search returns to the best order.
constexpr int kPatience = 1000;
// Bits of the hash table of tabu pairs. Pairs that share a table entry are tabu together.
constexpr int kPlaceBits = 16;

// A move of `op` behind or before `other`.
struct Move {
  int op = kNone, other = kNone;
  bool behind = true;
  Nanos estimate_ns = 0;
};

class TabuSearch {
 public:
  TabuSearch(const Schedule& schedule, const TabuOptions& options)
      : options_(options),
        graph_(schedule, options.times),
        sequences_(graph_, graph_.ListBy(graph_.OwnTimes())),
        random_(kSeed + static_cast<uint32_t>(options.seed)),
        tabu_until_(1 << kPlaceBits, 0) {
    Keep();
  }

  TabuResult Run() {
    int since_gain = 0;
    for (step_ = 1; step_ <= options_.max_moves && best_ns_ > options_.enough_ns; ++step_) {
      const Move move = Choose();
      if (move.op == kNone) break;
      Do(move);
      if (sequences_.makespan_ns() < best_ns_) {
        Keep();
        since_gain = 0;
      } else if (++since_gain == kPatience) {
        sequences_ = PassSequences(graph_, graph_.ListBy(best_keys_));
        std::fill(tabu_until_.begin(), tabu_until_.end(), 0);
        since_gain = 0;
      }
    }
    return {graph_.OrderedBy({best_keys_.begin(), best_keys_.end()}), best_ns_, step_ - 1};
  }

 private:
  void Keep() {
    best_ns_ = sequences_.makespan_ns();
    best_keys_.resize(graph_.num_ops());
    for (int op = 0; op < graph_.num_ops(); ++op) {
      best_keys_[op] = static_cast<double>(sequences_.StartOf(op));
    }
  }

  // Finds a longest path, from front to back; random if there are several.
  void FindLongestPath() {
    path_.clear();
    int op = kNone, equal = 0;
    for (int d = 0; d < graph_.num_devices(); ++d) {
      const int last = sequences_.LastOf(d);
      if (last == kNone || sequences_.EndOf(last) != sequences_.makespan_ns()) continue;
      if (random_() % ++equal == 0) op = last;
    }
    while (op != kNone) {
      path_.push_back(op);
      op = Cause(op);
    }
    std::reverse(path_.begin(), path_.end());
  }

  // Returns what a pass on a longest path waited for; kNone if nothing.
  int Cause(int op) {
    const Nanos start = sequences_.StartOf(op);
    int cause = kNone, equal = 0;
    const int previous = sequences_.Previous(op);
    if (previous != kNone && sequences_.EndOf(previous) == start) {
      cause = previous;
      ++equal;
    }
    for (const PassGraph::Arc& arc : graph_.Before(op)) {
      if (sequences_.EndOf(arc.op) + arc.delay_ns != start) continue;
      if (random_() % ++equal == 0) cause = arc.op;
    }
    return cause;
  }

  Move Choose() {
    FindLongestPath();
    best_move_ = any_move_ = Move();
    num_equal_ = num_any_ = 0;
    size_t begin = 0;
    while (begin < path_.size()) {
      size_t end = begin + 1;
      while (end < path_.size() && sequences_.Next(path_[end - 1]) == path_[end]) ++end;
      // Nothing precedes the first block on the path, and nothing follows the last one, so moves to
      // the front of the first block and to the back of the last one cannot help.
      if (end - begin > 1) ConsiderBlock(begin, end, begin > 0, end < path_.size());
      begin = end;
    }
    return best_move_.op != kNone ? best_move_ : any_move_;
  }

  void ConsiderBlock(size_t begin, size_t end, bool to_front, bool to_back) {
    const int first = path_[begin], last = path_[end - 1];
    if (to_back) {
      for (size_t i = end - 1; i-- > begin && end - 1 - i <= kMaxDistance;) {
        Consider({path_[i], last, true});
      }
      for (size_t i = end - 1; i-- > begin + 1 && end - 1 - i <= kMaxDistance;) {
        Consider({last, path_[i], false});
      }
    }
    if (to_front) {
      for (size_t i = begin + 1; i < end && i - begin <= kMaxDistance; ++i) {
        Consider({path_[i], first, false});
      }
      for (size_t i = begin + 1; i + 1 < end && i - begin <= kMaxDistance; ++i) {
        Consider({first, path_[i], true});
      }
    }
  }

  bool IsSameStageAndPass(int a, int b) const {
    const Slot &one = graph_.op(a).slot, &other = graph_.op(b).slot;
    return one.stage == other.stage && one.pass == other.pass;
  }

  // Visits the passes that the move goes over, nearest first, until `visit` returns false.
  template <typename Visit>
  bool AllPassed(const Move& move, const Visit& visit) const {
    for (int i = move.op; i != move.other;) {
      i = move.behind ? sequences_.Next(i) : sequences_.Previous(i);
      if (!visit(i)) return false;
    }
    return true;
  }

  int& TabuOf(int before, int after) {
    const uint32_t pair = static_cast<uint32_t>(before) * static_cast<uint32_t>(graph_.num_ops()) +
                          static_cast<uint32_t>(after);
    return tabu_until_[(pair * 2654435769u) >> (32 - kPlaceBits)];
  }
  bool IsTabu(const Move& move) {
    return !AllPassed(move, [&](int i) {
      return (move.behind ? TabuOf(i, move.op) : TabuOf(move.op, i)) < step_;
    });
  }

  Nanos BoundOf(const Move& move) const {
    return move.behind ? sequences_.BoundBehind(move.op, move.other)
                       : sequences_.BoundBefore(move.op, move.other);
  }

  void Consider(Move move) {
    if (best_move_.op != kNone && BoundOf(move) > best_move_.estimate_ns) return;
    const bool can = move.behind ? sequences_.CanGoBehind(move.op, move.other)
                                 : sequences_.CanGoBefore(move.op, move.other);
    if (!can || !AllPassed(move, [&](int i) { return !IsSameStageAndPass(i, move.op); })) return;
    move.estimate_ns = move.behind ? sequences_.EstimateBehind(move.op, move.other)
                                   : sequences_.EstimateBefore(move.op, move.other);
    if (move.estimate_ns >= best_ns_ && IsTabu(move)) {
      if (random_() % ++num_any_ == 0) any_move_ = move;
      return;
    }
    if (best_move_.op != kNone && move.estimate_ns > best_move_.estimate_ns) return;
    if (best_move_.op == kNone || move.estimate_ns < best_move_.estimate_ns) num_equal_ = 0;
    if (random_() % ++num_equal_ == 0) best_move_ = move;
  }

  void Do(const Move& move) {
    const int until = step_ + kTenure + static_cast<int>(random_() % kTenureRange);
    AllPassed(move, [&](int i) {
      (move.behind ? TabuOf(move.op, i) : TabuOf(i, move.op)) = until;
      return true;
    });
    if (move.behind) {
      sequences_.MoveBehind(move.op, move.other);
    } else {
      sequences_.MoveBefore(move.op, move.other);
    }
  }

  const TabuOptions& options_;
  const PassGraph graph_;
  PassSequences sequences_;
  std::minstd_rand random_;
  int step_ = 0;
  std::vector<int> tabu_until_;
  std::vector<int> path_;
  Move best_move_, any_move_;  // any_move_: used if all moves are tabu
  int num_equal_ = 0, num_any_ = 0;
  Nanos best_ns_ = 0;
  std::vector<double> best_keys_;  // start times in the best order
};

}  // namespace

TabuResult TabuOrder(const Schedule& schedule, const TabuOptions& options) {
  return TabuSearch(schedule, options).Run();
}

}  // namespace dpipe
