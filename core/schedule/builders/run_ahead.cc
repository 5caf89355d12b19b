#include "core/schedule/builders/run_ahead.h"

namespace dpipe {

std::vector<Slot> RunAheadSlots(int ahead, int num_micro_batches) {
  std::vector<Slot> slots;
  int backward = 0;
  for (int forward = 0; forward < num_micro_batches; ++forward) {
    slots.push_back({Pass::kForward, forward});
    if (forward >= ahead) slots.push_back({Pass::kBackward, backward++});
  }
  while (backward < num_micro_batches) slots.push_back({Pass::kBackward, backward++});
  return slots;
}

std::vector<Slot> SplitRunAheadSlots(int ahead, int weight_delay, int num_micro_batches) {
  std::vector<Slot> slots;
  int weight = 0;
  for (Slot slot : RunAheadSlots(ahead, num_micro_batches)) {
    if (slot.pass == Pass::kForward) {
      slots.push_back(slot);
      continue;
    }
    slots.push_back({Pass::kInputGrad, slot.micro_batch});
    if (slot.micro_batch >= weight_delay) slots.push_back({Pass::kWeightGrad, weight++});
  }
  while (weight < num_micro_batches) slots.push_back({Pass::kWeightGrad, weight++});
  return slots;
}

}  // namespace dpipe
