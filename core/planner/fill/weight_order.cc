#include "core/planner/fill/weight_order.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/check.h"
#include "core/base/time.h"

namespace dpipe {
namespace {

using Lists = std::vector<std::vector<Slot>>;  // [device][slot]

constexpr int kNever = 1 << 30;

Lists SlotsOf(const Schedule& schedule) {
  Lists lists;
  for (int d = 0; d < schedule.num_devices(); ++d) lists.push_back(schedule.slots(d));
  return lists;
}

bool HasWeightGrads(const Schedule& schedule) {
  for (const std::vector<Slot>& slots : SlotsOf(schedule)) {
    for (const Slot& slot : slots) {
      if (slot.pass == Pass::kWeightGrad) return true;
    }
  }
  return false;
}

// Rewrites one device's list: the other passes keep their order, and weight gradients go where the
// caller puts them.
class Writer {
 public:
  Writer(const Schedule& schedule, int limit)
      : schedule_(schedule), limit_(limit), next_(schedule.num_stages(), 0) {}

  int num_ready() const { return static_cast<int>(ready_.size()); }
  const Slot& first_ready() const { return ready_.front(); }

  void WriteWeightGrad() {
    list_.push_back(ready_.front());
    ready_.pop_front();
    --kept_;
  }

  void Write(const Slot& slot) {
    const bool keeps = slot.pass == Pass::kForward && !schedule_.IsForwardOnly(slot.stage);
    while (keeps && limit_ > 0 && kept_ >= limit_ && !ready_.empty()) WriteWeightGrad();
    list_.push_back(slot);
    kept_ += keeps;
    if (slot.pass == Pass::kBackward) --kept_;
    if (slot.pass != Pass::kInputGrad) return;
    // Weight gradients of a stage run in micro-batch order, even if the other passes do not.
    waiting_.push_back({Pass::kWeightGrad, slot.micro_batch, slot.stage});
    bool moved = true;
    while (moved) {
      moved = false;
      for (auto it = waiting_.begin(); it != waiting_.end() && !moved; ++it) {
        if (it->micro_batch != next_[it->stage]) continue;
        ++next_[it->stage];
        ready_.push_back(*it);
        waiting_.erase(it);
        moved = true;
      }
    }
  }

  std::vector<Slot> Finish() {
    while (!ready_.empty()) WriteWeightGrad();
    return std::move(list_);
  }

 private:
  const Schedule& schedule_;
  const int limit_;
  std::vector<int> next_;      // by stage: micro-batch of the next weight gradient
  std::vector<Slot> waiting_;  // wait for the input gradient of an earlier micro-batch
  std::deque<Slot> ready_;
  std::vector<Slot> list_;
  int kept_ = 0;
};

class Orders {
 public:
  Orders(const Schedule& schedule, const WeightOrderOptions& options)
      : schedule_(schedule), options_(options), costs_(options.costs) {
    if (costs_.empty()) costs_.assign(schedule.num_stages(), PassCosts{1, 1, 1});
    DPIPE_CHECK_EQ(static_cast<int>(costs_.size()), schedule.num_stages());
    result_.push_back(schedule);
  }

  std::vector<Schedule> Run() {
    for (int delay : {0, 1, 2, 4}) Add(Delayed(delay));
    const absl::StatusOr<Schedule> late = Make(Delayed(kNever));
    if (late.ok()) {
      AddIfNew(*late);
      AddFitted(*late);
    }
    return std::move(result_);
  }

 private:
  int LimitOf(int device) const {
    return options_.device_limits.empty() ? 0 : options_.device_limits[device];
  }

  Lists Delayed(int delay) const {
    Lists lists;
    for (int d = 0; d < schedule_.num_devices(); ++d) {
      Writer writer(schedule_, LimitOf(d));
      for (const Slot& slot : schedule_.slots(d)) {
        if (slot.pass == Pass::kWeightGrad) continue;
        writer.Write(slot);
        while (writer.num_ready() > delay) writer.WriteWeightGrad();
      }
      lists.push_back(writer.Finish());
    }
    return lists;
  }

  Nanos Duration(const Slot& slot) const {
    const PassCosts& costs = costs_[slot.stage];
    switch (slot.pass) {
      case Pass::kForward:
        return costs.forward;
      case Pass::kBackward:
        return costs.input_grad + costs.weight_grad;
      case Pass::kInputGrad:
        return costs.input_grad;
      default:
        return costs.weight_grad;
    }
  }

  // Adds orders with weight gradients only in gaps up to a quantile of the gap lengths in `late`.
  void AddFitted(const Schedule& late) {
    const std::vector<std::vector<Nanos>> starts = late.StartTimes(costs_);
    std::vector<Nanos> gaps;
    for (int d = 0; d < late.num_devices(); ++d) {
      Nanos free_ns = 0;
      for (size_t i = 0; i < late.slots(d).size(); ++i) {
        if (starts[d][i] > free_ns) gaps.push_back(starts[d][i] - free_ns);
        free_ns = starts[d][i] + Duration(late.slots(d)[i]);
      }
    }
    if (gaps.empty()) return;
    std::sort(gaps.begin(), gaps.end());
    for (size_t quarter = 4; quarter > 0; --quarter) {
      Add(Fitted(late, starts, gaps[(gaps.size() - 1) * quarter / 4]));
    }
  }

  Lists Fitted(const Schedule& late, const std::vector<std::vector<Nanos>>& starts,
               Nanos longest_ns) const {
    Lists lists;
    for (int d = 0; d < late.num_devices(); ++d) {
      Writer writer(schedule_, LimitOf(d));
      Nanos free_ns = 0;
      for (size_t i = 0; i < late.slots(d).size(); ++i) {
        const Slot& slot = late.slots(d)[i];
        if (slot.pass == Pass::kWeightGrad) continue;
        const Nanos length_ns = starts[d][i] - free_ns;
        while (writer.num_ready() > 0 && length_ns <= longest_ns &&
               free_ns + Duration(writer.first_ready()) <= starts[d][i]) {
          free_ns += Duration(writer.first_ready());
          writer.WriteWeightGrad();
        }
        writer.Write(slot);
        free_ns = starts[d][i] + Duration(slot);
      }
      lists.push_back(writer.Finish());
    }
    return lists;
  }

  absl::StatusOr<Schedule> Make(Lists lists) const {
    absl::StatusOr<Schedule> made =
        Schedule::Create(schedule_.name(), schedule_.chains(), std::move(lists));
    if (!made.ok()) return made;
    for (int d = 0; d < made->num_devices(); ++d) {
      if (LimitOf(d) > 0 && made->PeakStashedOnDevice(d) > LimitOf(d)) {
        return absl::ResourceExhaustedError("the order exceeds the limit of kept pairs");
      }
    }
    return made;
  }

  void Add(Lists lists) {
    absl::StatusOr<Schedule> made = Make(std::move(lists));
    if (made.ok()) AddIfNew(*std::move(made));
  }

  void AddIfNew(Schedule schedule) {
    const Lists lists = SlotsOf(schedule);
    for (const Schedule& known : result_) {
      if (SlotsOf(known) == lists) return;
    }
    result_.push_back(std::move(schedule));
  }

  const Schedule& schedule_;
  const WeightOrderOptions& options_;
  std::vector<PassCosts> costs_;
  std::vector<Schedule> result_;
};

}  // namespace

std::vector<Schedule> WeightOrders(const Schedule& schedule, const WeightOrderOptions& options) {
  if (!HasWeightGrads(schedule)) return {schedule};
  return Orders(schedule, options).Run();
}

}  // namespace dpipe
