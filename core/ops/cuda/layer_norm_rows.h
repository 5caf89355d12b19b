// Rows of a layer norm as warps hold them.
#ifndef DPIPE_CORE_OPS_CUDA_LAYER_NORM_ROWS_H_
#define DPIPE_CORE_OPS_CUDA_LAYER_NORM_ROWS_H_

#include "core/ops/cuda/pack.h"

namespace dpipe::ops::cuda {

// Packs of a lane.
constexpr int kPacks = 5;

// A row as the lanes of a warp hold it: kLanes neighbouring ones, each with every kLanes-th pack, a
// warp having kRows rows at once. As few lanes as can hold it, so that few are idle. Rows that are
// not whole packs, or too long, are ForPacks'. Which it is depends on a row's channels alone, and
// so does every sum's order.
template <typename T, uint32_t kLanes>
struct RowLanes {
  static constexpr uint32_t kRows = kWarp / kLanes;
  int64_t channels;

  static bool Hold(int64_t channels) {
    return channels % kPack<T> == 0 && Packs<T>(channels) <= int64_t{kPacks} * kLanes;
  }

  // The first channel of the lane's pack p.
  DPIPE_KERNEL_FUNCTION static int64_t Column(int p) {
    return int64_t{p * static_cast<int>(kLanes) + static_cast<int>(Thread() % kLanes)} * kPack<T>;
  }
  DPIPE_KERNEL_FUNCTION bool Has(int p) const { return Column(p) < channels; }

  // The lane's packs of the row at `from`, which are all asked for before the first one is used;
  // zeros where there are none.
  DPIPE_KERNEL_FUNCTION void LoadRow(const T* from, bool exists, Words (&words)[kPacks]) const {
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) words[p] = {};
    if (!exists) return;
    if (IsAligned(from)) {
      DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
        if (Has(p)) words[p] = LoadWords(from + Column(p));
      }
    } else {
      DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
        if (Has(p)) words[p] = WordsOf(LoadPack(from + Column(p), kPack<T>));
      }
    }
  }

  DPIPE_KERNEL_FUNCTION static float Sum(float of_lane) {
    for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) of_lane += LaneXor(of_lane, mask);
    return of_lane;
  }
};

// Calls f(c, count) for the packs of a row that is a whole warp's.
template <typename T, typename F>
DPIPE_KERNEL_FUNCTION void ForPacks(int64_t channels, const F& f) {
  for (int64_t c = int64_t{Thread() % kWarp} * kPack<T>; c < channels; c += kWarp * kPack<T>) {
    f(c, PackCount<T>(channels, c));
  }
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_LAYER_NORM_ROWS_H_
