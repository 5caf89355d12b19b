#include "core/schedule/tuning/tune_order.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

#include "absl/types/optional.h"
#include "core/schedule/builders/list_schedule.h"

namespace dpipe {
namespace {

// From std::minstd_rand instead of a RandomStream, as in the other searches for orders.
constexpr uint32_t kSeed = 20260101;

// Priorities, in multiples of the longest path of a micro-batch through a chain.
struct Rule {
  std::vector<double> age;                // by backbone
  std::vector<double> forward, gradient;  // by backbone: offsets; the largest goes first
  double patience = 0;
};

class Tuner {
 public:
  Tuner(const Schedule& schedule, const TuneOrderOptions& options)
      : schedule_(schedule), options_(options), random_(kSeed) {
    for (const ScheduleChain& chain : schedule.chains()) {
      num_backbones_ = std::max(num_backbones_, chain.backbone + 1);
    }
    for (int d = 0; d < schedule.num_devices(); ++d) {
      for (const Slot& slot : schedule.slots(d)) splits_ |= slot.pass == Pass::kWeightGrad;
    }
    list_.costs = options.costs;
    list_.split_backward = splits_;
    list_.device_limits = options.device_limits;
    for (int d = 0; list_.device_limits.empty() && d < schedule.num_devices(); ++d) {
      own_limits_.push_back(schedule.PeakStashedOnDevice(d));
    }
    if (list_.device_limits.empty()) list_.device_limits = own_limits_;
    for (int c = 0; c < static_cast<int>(schedule.chains().size()); ++c) {
      Nanos path = 1;
      const int first = schedule.FirstStageOf(c);
      for (size_t k = 0; k < schedule.chains()[c].devices.size(); ++k) {
        const PassCosts& costs = options.costs[first + k];
        path += costs.forward + costs.input_grad;
      }
      longest_path_ = std::max(longest_path_, static_cast<double>(path));
    }
  }

  Schedule Run() {
    best_ns_ = schedule_.Makespan(options_.costs);
    Begin();
    while (tried_ < options_.max_tried) Try(Changed());
    return best_ ? *std::move(best_) : schedule_;
  }

 private:
  // Tries rules that are known to be good for some schedules.
  void Begin() {
    Rule rule;
    rule.forward.assign(num_backbones_, 0);
    rule.age = rule.gradient = rule.forward;
    Try(rule);  // the longest path first
    rule.gradient.assign(num_backbones_, 100);
    Try(rule);  // gradients first
    rule.gradient.assign(num_backbones_, 0);
    rule.age.assign(num_backbones_, 2);
    Try(rule);  // the oldest first
    for (int b = 0; b < num_backbones_ && num_backbones_ > 1; ++b) {
      Rule before = rule;
      before.forward[b] = before.gradient[b] = 1000;
      Try(before);
    }
  }

  double Uniform() { return static_cast<double>(random_() % 65536) / 65536; }
  bool Chance(double p) { return Uniform() < p; }

  // Changes some or all numbers of the best rule, by a small or a large random amount.
  Rule Changed() {
    Rule rule = rule_;
    const double share = Chance(0.5) ? 0.25 : 0.7, width = Chance(0.5) ? 0.15 : 1;
    const auto change = [&](double& value, double min_value) {
      if (!Chance(share)) return;
      const double from = std::min(value, 4.0);
      value = std::max(min_value, from + width * (2 * Uniform() - 1));
    };
    for (int b = 0; b < num_backbones_; ++b) {
      change(rule.age[b], 0);
      change(rule.forward[b], -4);
      change(rule.gradient[b], -4);
    }
    if (splits_ && Chance(0.2)) rule.patience = Chance(0.5) ? 0 : Uniform();
    return rule;
  }

  void Try(const Rule& rule) {
    ++tried_;
    list_.weight_patience = rule.patience;
    list_.policy = [this, &rule](const ListCandidate& candidate) -> ListPriority {
      const Slot& slot = candidate.slot;
      if (slot.pass == Pass::kWeightGrad) return {1, slot.micro_batch, 0};
      const int b = schedule_.chains()[candidate.chain].backbone;
      const double offset = slot.pass == Pass::kForward ? rule.forward[b] : rule.gradient[b];
      const double first = static_cast<double>(candidate.remaining_ns) +
                           longest_path_ * (offset - rule.age[b] * slot.micro_batch);
      return {0, -static_cast<Nanos>(first), 0};
    };
    absl::StatusOr<Schedule> made = ListSchedule(schedule_.name(), schedule_.chains(), list_);
    if (!made.ok()) return;
    const Nanos ns = made->Makespan(options_.costs);
    if (!has_rule_ || ns <= rule_ns_) {
      has_rule_ = true;
      rule_ns_ = ns;
      rule_ = rule;
    }
    if (ns >= best_ns_) return;
    best_ns_ = ns;
    best_ = *std::move(made);
  }

  const Schedule& schedule_;
  const TuneOrderOptions& options_;
  std::minstd_rand random_;
  int num_backbones_ = 1;
  bool splits_ = false;
  double longest_path_ = 1;
  std::vector<int> own_limits_;
  ListScheduleOptions list_;
  int tried_ = 0;
  bool has_rule_ = false;
  Rule rule_;  // the best one so far
  Nanos rule_ns_ = 0;
  absl::optional<Schedule> best_;  // set if shorter than the given schedule
  Nanos best_ns_ = 0;
};

}  // namespace

Schedule TuneOrder(const Schedule& schedule, const TuneOrderOptions& options) {
  return Tuner(schedule, options).Run();
}

}  // namespace dpipe
