#include "core/planner/cuts/balance_cut.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dpipe {
namespace {

using Stages = std::vector<std::vector<LayerRange>>;  // by backbone

struct Quality {
  int64_t excess_bytes = 0;
  Nanos makespan = 0;
  Nanos largest = 0;
  double squares = 0;

  friend bool operator<(const Quality& a, const Quality& b) {
    return std::tie(a.excess_bytes, a.makespan, a.largest, a.squares) <
           std::tie(b.excess_bytes, b.makespan, b.largest, b.squares);
  }
};

// Moves cuts first .. first + length - 1 of a backbone by `step` layers. Cut k is the end of stage
// k - 1.
struct Move {
  int backbone = 0;
  int first = 1;
  int length = 1;
  int step = 0;
};

constexpr int kSteps[] = {1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8};

class Balancer {
 public:
  Balancer(const CutBalance& balance, Stages stages)
      : balance_(balance),
        schedule_(*balance.schedule),
        stages_(std::move(stages)),
        costs_(schedule_.num_stages()),
        excess_(schedule_.num_devices(), 0) {
    for (int s = 0; s < schedule_.num_stages(); ++s) Price(s);
    for (int d = 0; d < schedule_.num_devices(); ++d) Weigh(d);
    quality_ = Judge();
  }

  Stages Run() {
    while (judged_ < balance_.max_judged && (TryRuns(1) || TryRuns(LongestRun()) || TryPairs())) {
    }
    return std::move(stages_);
  }

 private:
  // Returns the position in its chain of a stage of the schedule. A stage of a forward-only lap has
  // the position of its counterpart with gradients.
  int PositionOf(int s) const {
    const int chain = schedule_.ChainOf(s);
    return (s - schedule_.FirstStageOf(chain)) %
           static_cast<int>(stages_[schedule_.chains()[chain].backbone].size());
  }
  int BackboneOf(int s) const { return schedule_.chains()[schedule_.ChainOf(s)].backbone; }

  void Price(int s) {
    costs_[s] =
        balance_.costs(BackboneOf(s), stages_[BackboneOf(s)][PositionOf(s)], schedule_.DeviceOf(s));
  }
  void Weigh(int d) {
    if (balance_.excess) excess_[d] = std::max<int64_t>(0, balance_.excess(d, stages_));
  }

  std::vector<Nanos> Loads() const {
    std::vector<Nanos> loads(schedule_.num_devices(), 0);
    for (int s = 0; s < schedule_.num_stages(); ++s) {
      const PassCosts& c = costs_[s];
      const Nanos gradients = schedule_.IsForwardOnly(s) ? 0 : c.input_grad + c.weight_grad;
      loads[schedule_.DeviceOf(s)] +=
          schedule_.chains()[schedule_.ChainOf(s)].num_micro_batches * (c.forward + gradients);
    }
    return loads;
  }

  Quality Judge() {
    ++judged_;
    Quality quality;
    for (int64_t bytes : excess_) quality.excess_bytes += bytes;
    for (Nanos load : Loads()) {
      quality.largest = std::max(quality.largest, load);
      quality.squares += static_cast<double>(load) * static_cast<double>(load);
    }
    // A schedule takes at least as long as its busiest device works.
    const bool may_help =
        quality.excess_bytes <= quality_.excess_bytes && quality.largest <= quality_.makespan;
    if (balance_.by_makespan && (judged_ == 1 || may_help)) {
      quality.makespan = schedule_.Makespan(costs_);
    } else if (balance_.by_makespan) {
      quality.makespan = quality.largest;  // a lower bound, already too long
    }
    return quality;
  }

  bool IsValid(const Move& move) const {
    const std::vector<LayerRange>& of = stages_[move.backbone];
    const LayerRange& before = of[move.first - 1];
    const LayerRange& after = of[move.first + move.length - 1];
    return before.size() + move.step >= 1 && after.size() - move.step >= 1;
  }

  void Shift(const Move& move) {
    std::vector<LayerRange>& of = stages_[move.backbone];
    for (int k = move.first; k < move.first + move.length; ++k) {
      of[k - 1].end += move.step;
      of[k].begin += move.step;
    }
  }

  // Recomputes what depends on the stages that the move changes.
  void Update(const Move& move) {
    std::vector<bool> changed(schedule_.num_devices(), false);
    for (int s = 0; s < schedule_.num_stages(); ++s) {
      const int k = PositionOf(s);
      if (BackboneOf(s) != move.backbone || k + 1 < move.first || k >= move.first + move.length) {
        continue;
      }
      Price(s);
      changed[schedule_.DeviceOf(s)] = true;
    }
    for (int d = 0; d < schedule_.num_devices(); ++d) {
      if (changed[d]) Weigh(d);
    }
  }

  void Do(const Move& move) {
    Shift(move);
    Update(move);
  }
  void Undo(const Move& move) { Do({move.backbone, move.first, move.length, -move.step}); }

  // Keeps the moves made so far if they help.
  bool Accept() {
    const Quality quality = Judge();
    if (!(quality < quality_)) return false;
    quality_ = quality;
    return true;
  }

  int LongestRun() const {
    size_t longest = 1;
    for (const auto& of : stages_) longest = std::max(longest, of.size() - 1);
    return static_cast<int>(longest);
  }

  bool TryRuns(int longest) {
    for (int b = 0; b < static_cast<int>(stages_.size()); ++b) {
      const int num_cuts = static_cast<int>(stages_[b].size()) - 1;
      for (int length = 1; length <= std::min(longest, num_cuts); ++length) {
        for (int first = 1; first + length - 1 <= num_cuts; ++first) {
          for (int step : kSteps) {
            if (judged_ >= balance_.max_judged) return false;
            const Move move{b, first, length, step};
            if (!IsValid(move)) continue;
            Do(move);
            if (Accept()) return true;
            Undo(move);
          }
        }
      }
    }
    return false;
  }

  // Returns moves of single cuts that take layers from the device with the most work.
  std::vector<Move> MovesOfBusiest() const {
    const std::vector<Nanos> loads = Loads();
    const int busiest =
        static_cast<int>(std::max_element(loads.begin(), loads.end()) - loads.begin());
    std::vector<Move> moves;
    for (int s = 0; s < schedule_.num_stages(); ++s) {
      if (schedule_.DeviceOf(s) != busiest) continue;
      const int b = BackboneOf(s), k = PositionOf(s);
      for (int step : kSteps) {
        if (k > 0 && step > 0) moves.push_back({b, k, 1, step});
        if (k + 1 < static_cast<int>(stages_[b].size()) && step < 0) {
          moves.push_back({b, k + 1, 1, step});
        }
      }
    }
    return moves;
  }

  bool TryPairs() {
    for (const Move& one : MovesOfBusiest()) {
      if (!IsValid(one)) continue;
      Do(one);
      for (int b = 0; b < static_cast<int>(stages_.size()); ++b) {
        for (int cut = 1; cut < static_cast<int>(stages_[b].size()); ++cut) {
          for (int step : kSteps) {
            const Move other{b, cut, 1, step};
            if ((b == one.backbone && cut == one.first) || !IsValid(other)) continue;
            if (judged_ >= balance_.max_judged) {
              Undo(one);
              return false;
            }
            Do(other);
            if (Accept()) return true;
            Undo(other);
          }
        }
      }
      Undo(one);
    }
    return false;
  }

  const CutBalance& balance_;
  const Schedule& schedule_;
  Stages stages_;
  std::vector<PassCosts> costs_;  // by stage of the schedule
  std::vector<int64_t> excess_;   // by device
  Quality quality_;
  int judged_ = 0;
};

}  // namespace

std::vector<std::vector<LayerRange>> BalanceCut(const CutBalance& balance,
                                                std::vector<std::vector<LayerRange>> stages) {
  return Balancer(balance, std::move(stages)).Run();
}

}  // namespace dpipe
