// Rows of a layer norm or RMS norm in the registers of warps.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_NORM_ROWS_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_NORM_ROWS_H_

#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {

// Maximum packs per lane.
constexpr int kPacks = 5;

// A row in kLanes adjacent lanes of a warp. Each lane has every kLanes-th pack, and a warp has
// kRows rows at once. Kernels use as few lanes as can hold the row, so that few are idle. Rows that
// are too long or not whole packs use ForPacks. The choice, and therefore the order of every sum,
// depends only on the number of channels.
template <typename T, uint32_t kLanes>
struct RowLanes {
  static constexpr uint32_t kRows = kWarp / kLanes;
  int64_t channels;

  static bool Hold(int64_t channels) {
    return channels % kPack<T> == 0 && Packs<T>(channels) <= int64_t{kPacks} * kLanes;
  }

  // Returns the first channel of the lane's pack p.
  DPIPE_KERNEL_FUNCTION static int64_t Column(int p) {
    return int64_t{p * static_cast<int>(kLanes) + static_cast<int>(Thread() % kLanes)} * kPack<T>;
  }
  DPIPE_KERNEL_FUNCTION bool Has(int p) const { return Column(p) < channels; }

  // Loads the lane's packs of the row at `from`, all requested before the first is used; zeros if
  // there are none.
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

// Calls f(c, count) for the lane's packs of a row that a whole warp processes.
template <typename T, typename F>
DPIPE_KERNEL_FUNCTION void ForPacks(int64_t channels, const F& f) {
  for (int64_t c = int64_t{Thread() % kWarp} * kPack<T>; c < channels; c += kWarp * kPack<T>) {
    f(c, PackCount<T>(channels, c));
  }
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_NORM_ROWS_H_
