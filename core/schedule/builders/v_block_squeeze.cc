#include "core/schedule/builders/v_block_squeeze.h"

#include <algorithm>
#include <tuple>

namespace dpipe {
namespace {

// What a device does in a slot. A micro-batch goes through the first four in this order.
enum Kind { kFrontForward, kBackForward, kBackGrad, kFrontGrad, kWeightGrad, kFree };
constexpr int kNumPlaced = 4;  // the number of kinds that the block places

bool IsForward(int kind) { return kind == kFrontForward || kind == kBackForward; }
bool IsInputGrad(int kind) { return kind == kBackGrad || kind == kFrontGrad; }

// What a device keeps after a slot.
struct Kept {
  int pairs = 0;    // (stage, micro-batch) pairs
  int pending = 0;  // the pairs that wait only for their weight gradient
  friend bool operator==(const Kept& a, const Kept& b) {
    return a.pairs == b.pairs && a.pending == b.pending;
  }
};

struct Device {
  std::vector<std::vector<int>> slot_of;  // by kind and by number within it
  std::vector<int> kind_at;               // by slot
  std::vector<Kept> kept_after;           // by slot
};

struct PlacedPass {
  int slot = 0;
  int device = 0;
  int kind = 0;
  int number = 0;
  friend bool operator<(const PlacedPass& a, const PlacedPass& b) {
    return std::tie(a.slot, a.device) < std::tie(b.slot, b.device);
  }
};

class Grid {
 public:
  Grid(const VBlockTimes& block, int num_micro_batches)
      : num_micro_batches_(num_micro_batches), devices_(block.offsets.size()) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      devices_[d].slot_of.resize(kNumPlaced + 1);
      for (int kind = 0; kind < kNumPlaced; ++kind) {
        for (int m = 0; m < num_micro_batches; ++m) {
          devices_[d].slot_of[kind].push_back(block.offsets[d][kind] + block.period * m);
        }
      }
      Lay(&devices_[d]);
    }
  }

  void AddWeightGrads() {
    for (Device& device : devices_) {
      std::vector<int>& slots = device.slot_of[kWeightGrad];
      int pending = 0;
      for (int slot = 0; slot < static_cast<int>(device.kind_at.size()) || pending > 0; ++slot) {
        const int kind =
            slot < static_cast<int>(device.kind_at.size()) ? device.kind_at[slot] : kFree;
        if (IsInputGrad(kind)) ++pending;
        if (kind != kFree || pending == 0) continue;
        slots.push_back(slot);
        --pending;
      }
      Lay(&device);
    }
    has_weight_grads_ = true;
  }

  void RemoveWeightGrads() {
    for (Device& device : devices_) {
      device.slot_of[kWeightGrad].clear();
      Lay(&device);
    }
    has_weight_grads_ = false;
  }

  // Step 2 or 4 of the header. The limit is the current maximum memory over devices.
  void MovePassesAhead(bool warm_up_too) {
    int limit = 0;
    for (Device& device : devices_) {
      Kept kept;
      device.kept_after.clear();
      for (int kind : device.kind_at) {
        kept = After(kept, kind);
        device.kept_after.push_back(kept);
        limit = std::max(limit, kept.pairs);
      }
    }
    bool in_warm_up = true, has_begun_all = false;
    // A pass only moves to slots of passes before it in this order, so the order stays valid.
    for (const PlacedPass& pass : InOrderOfTime()) {
      if (pass.device == 0 && pass.kind == kFrontGrad) in_warm_up = false;
      const bool in_cool_down = !in_warm_up && has_begun_all;
      if (pass.kind == kFrontForward && pass.number == num_micro_batches_ - 1) has_begun_all = true;
      if (in_cool_down || (in_warm_up && warm_up_too)) MoveAhead(pass, limit);
    }
  }

  void CloseGaps() {
    std::vector<int> free_from(devices_.size(), 0);
    for (const PlacedPass& pass : InOrderOfTime()) {
      int& slot = devices_[pass.device].slot_of[pass.kind][pass.number];
      slot = std::max(FirstSlot(pass), free_from[pass.device]);
      free_from[pass.device] = slot + 1;
    }
    for (Device& device : devices_) Lay(&device);
  }

  std::vector<std::vector<Slot>> Order() const {
    const int p = static_cast<int>(devices_.size());
    std::vector<std::vector<Slot>> order(p);
    for (const PlacedPass& pass : InOrderOfTime()) {
      const bool front = pass.kind == kFrontForward || pass.kind == kFrontGrad;
      order[pass.device].push_back({IsForward(pass.kind) ? Pass::kForward : Pass::kInputGrad,
                                    pass.number, front ? pass.device : 2 * p - 1 - pass.device});
    }
    return order;
  }

 private:
  static void Lay(Device* device) {
    int end = 0;
    for (const auto& slots : device->slot_of) {
      if (!slots.empty()) end = std::max(end, slots.back() + 1);
    }
    device->kind_at.assign(end, kFree);
    for (int kind = 0; kind <= kNumPlaced; ++kind) {
      for (int slot : device->slot_of[kind]) device->kind_at[slot] = kind;
    }
  }

  std::vector<PlacedPass> InOrderOfTime() const {
    std::vector<PlacedPass> passes;
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d) {
      for (int kind = 0; kind <= kNumPlaced; ++kind) {
        const std::vector<int>& slots = devices_[d].slot_of[kind];
        for (int n = 0; n < static_cast<int>(slots.size()); ++n) {
          passes.push_back({slots[n], d, kind, n});
        }
      }
    }
    std::sort(passes.begin(), passes.end());
    return passes;
  }

  // Returns the slot after those of the pass's inputs and of the previous pass of its kind.
  int FirstSlot(const PlacedPass& pass) const {
    const Device& device = devices_[pass.device];
    int last = pass.number > 0 ? device.slot_of[pass.kind][pass.number - 1] : -1;
    if (pass.kind == kWeightGrad) return std::max(last, InputGradSlot(device, pass.number)) + 1;
    if (pass.kind > 0) last = std::max(last, device.slot_of[pass.kind - 1][pass.number]);
    // Front stages get forward passes from the device before and send gradients to it; back stages
    // do the opposite.
    const bool comes_from_before = pass.kind == kFrontForward || pass.kind == kBackGrad;
    const int neighbour = pass.device + (comes_from_before ? -1 : 1);
    if (neighbour >= 0 && neighbour < static_cast<int>(devices_.size())) {
      last = std::max(last, devices_[neighbour].slot_of[pass.kind][pass.number]);
    }
    return last + 1;
  }

  // Returns the slot of the device's input gradient `number`, counted over both stages.
  static int InputGradSlot(const Device& device, int number) {
    const std::vector<int>&back = device.slot_of[kBackGrad], &front = device.slot_of[kFrontGrad];
    // How many of the first `number` + 1 are the back stage's: merges two sorted lists.
    int low = std::max(0, number + 1 - static_cast<int>(front.size()));
    int high = std::min(number + 1, static_cast<int>(back.size()));
    while (low < high) {
      const int from_back = (low + high) / 2;
      if (back[from_back] < front[number - from_back]) {
        low = from_back + 1;
      } else {
        high = from_back;
      }
    }
    const int last_back = low > 0 ? back[low - 1] : -1;
    const int last_front = number + 1 - low > 0 ? front[number - low] : -1;
    return std::max(last_back, last_front);
  }

  Kept After(Kept kept, int kind) const {
    if (IsForward(kind)) ++kept.pairs;
    if (IsInputGrad(kind)) ++kept.pending;
    if (kind == kWeightGrad || (kind == kFree && !has_weight_grads_ && kept.pending > 0)) {
      --kept.pairs;
      --kept.pending;
    }
    return kept;
  }

  void MoveAhead(const PlacedPass& pass, int limit) {
    Device& device = devices_[pass.device];
    for (int slot = FirstSlot(pass); slot < pass.slot; ++slot) {
      if (device.kind_at[slot] != kFree) continue;
      std::swap(device.kind_at[slot], device.kind_at[pass.slot]);
      if (UpdateKept(&device, slot, pass.slot, limit)) {
        device.slot_of[pass.kind][pass.number] = slot;
        return;
      }
      std::swap(device.kind_at[slot], device.kind_at[pass.slot]);
    }
  }

  // Updates `kept_after` after slots `from` and `to` were exchanged. Returns false, and leaves it
  // unchanged, if a slot would exceed the limit.
  bool UpdateKept(Device* device, int from, int to, int limit) {
    std::vector<Kept>& kept_after = device->kept_after;
    Kept kept = from > 0 ? kept_after[from - 1] : Kept();
    updated_.clear();
    for (int slot = from; slot < static_cast<int>(kept_after.size()); ++slot) {
      kept = After(kept, device->kind_at[slot]);
      if (slot >= to && kept == kept_after[slot]) break;
      if (kept.pairs > limit) return false;
      updated_.push_back(kept);
    }
    std::copy(updated_.begin(), updated_.end(), kept_after.begin() + from);
    return true;
  }

  int num_micro_batches_;
  bool has_weight_grads_ = false;
  std::vector<Device> devices_;
  std::vector<Kept> updated_;  // scratch of UpdateKept
};

}  // namespace

std::vector<std::vector<Slot>> SqueezeVBlock(const VBlockTimes& block, int num_micro_batches) {
  Grid grid(block, num_micro_batches);
  grid.AddWeightGrads();
  grid.MovePassesAhead(/*warm_up_too=*/true);
  grid.CloseGaps();
  grid.RemoveWeightGrads();
  grid.MovePassesAhead(/*warm_up_too=*/false);
  return grid.Order();
}

}  // namespace dpipe
