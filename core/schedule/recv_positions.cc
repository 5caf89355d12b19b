#include "core/schedule/recv_positions.h"

#include <algorithm>

namespace dpipe {
namespace {

// clock[t]: the last slot of stage t that a pass depends on, itself included; -1 if none.
using Clock = std::vector<int>;

class Clocks {
 public:
  explicit Clocks(const Schedule& schedule)
      : schedule_(schedule),
        forward_(schedule.num_stages(), std::vector<int>(schedule.num_micro_batches(), -1)),
        gradient_(forward_),
        clocks_(schedule.num_stages()) {
    const int count = schedule.num_stages();
    for (int s = 0; s < count; ++s) {
      for (int k = 0; k < static_cast<int>(schedule.slots(s).size()); ++k) {
        const Slot& slot = schedule.slots(s)[k];
        if (slot.pass == Pass::kForward) forward_[s][slot.micro_batch] = k;
        if (slot.pass == Pass::kBackward || slot.pass == Pass::kInputGrad) {
          gradient_[s][slot.micro_batch] = k;
        }
      }
    }
    for (bool progress = true; progress;) {
      progress = false;
      for (int s = 0; s < count; ++s) {
        while (AddNext(s)) progress = true;
      }
    }
  }

  // The slot of another stage whose output `slot` of `stage` receives: {-1, -1} if none.
  std::pair<int, int> Sender(int stage, const Slot& slot) const {
    if (slot.pass == Pass::kForward && stage > 0) {
      return {stage - 1, forward_[stage - 1][slot.micro_batch]};
    }
    const bool gradient = slot.pass == Pass::kBackward || slot.pass == Pass::kInputGrad;
    if (gradient && stage + 1 < schedule_.num_stages()) {
      return {stage + 1, gradient_[stage + 1][slot.micro_batch]};
    }
    return {-1, -1};
  }

  const Clock& Of(int stage, int slot) const { return clocks_[stage][slot]; }

 private:
  bool AddNext(int s) {
    const int k = static_cast<int>(clocks_[s].size());
    if (k == static_cast<int>(schedule_.slots(s).size())) return false;
    const auto [from, sent] = Sender(s, schedule_.slots(s)[k]);
    if (from >= 0 && sent >= static_cast<int>(clocks_[from].size())) return false;
    Clock clock = k > 0 ? clocks_[s][k - 1] : Clock(schedule_.num_stages(), -1);
    if (from >= 0) {
      const Clock& other = clocks_[from][sent];
      for (size_t t = 0; t < clock.size(); ++t) clock[t] = std::max(clock[t], other[t]);
    }
    clock[s] = k;
    clocks_[s].push_back(std::move(clock));
    return true;
  }

  const Schedule& schedule_;
  std::vector<std::vector<int>> forward_, gradient_;  // slot index, [stage][micro-batch]
  std::vector<std::vector<Clock>> clocks_;            // [stage][slot]
};

}  // namespace

std::vector<std::vector<int>> RecvPositions(const Schedule& schedule,
                                            const RecvLookahead& lookahead) {
  const Clocks clocks(schedule);
  std::vector<std::vector<int>> positions(schedule.num_stages());
  for (int s = 0; s < schedule.num_stages(); ++s) {
    const std::vector<Slot>& slots = schedule.slots(s);
    for (int k = 0; k < static_cast<int>(slots.size()); ++k) {
      const auto [from, sent] = clocks.Sender(s, slots[k]);
      int position = k;
      const int earlier =
          slots[k].pass == Pass::kForward ? lookahead.activation : lookahead.gradient;
      if (from >= 0) position = std::max({k - earlier, clocks.Of(from, sent)[s] + 1, 0});
      positions[s].push_back(position);
    }
  }
  return positions;
}

}  // namespace dpipe
