// Channels-last data [batch, positions, channels] walked down its columns: a thread keeps one pack
// of channels, so that what it needs of them is loaded once, and goes through rows.
//
// A block has 32 packs side by side and 8 rows at a time, of one run of kRunRows rows of a sample.
// That division depends on the shape alone, and with it the order of every sum.
#ifndef DPIPE_CORE_OPS_CUDA_COLUMN_WALK_H_
#define DPIPE_CORE_OPS_CUDA_COLUMN_WALK_H_

#include "core/ops/cuda/pack.h"

namespace dpipe::ops::cuda {

struct ChannelsLast {
  int64_t batch, positions, channels;
};

// Rows of a run: 16 for each thread.
constexpr int64_t kRunRows = 128;

DPIPE_KERNEL_FUNCTION int64_t Runs(const ChannelsLast& shape) {
  return (shape.positions + kRunRows - 1) / kRunRows;
}

template <typename T>
DPIPE_KERNEL_FUNCTION int64_t Tiles(const ChannelsLast& shape) {
  return (Packs<T>(shape.channels) + kWarp - 1) / kWarp;
}

// Blocks of a kernel that walks.
template <typename T>
uint32_t WalkBlocks(const ChannelsLast& shape) {
  return BlocksFor(shape.batch * Runs(shape) * Tiles<T>(shape) * kThreads);
}

// A thread's place.
struct ColumnWalk {
  int64_t sample, run;
  int64_t column;              // of the pack's first channel
  int count;                   // channels of it; 0: none
  int64_t first_row, end_row;  // counted over all samples; in steps of kWarps
};

template <typename T>
DPIPE_KERNEL_FUNCTION ColumnWalk WalkOf(const ChannelsLast& shape) {
  const uint32_t tiles = static_cast<uint32_t>(Tiles<T>(shape));
  const uint32_t runs = static_cast<uint32_t>(Runs(shape));
  const uint32_t tile = Block() % tiles, run = Block() / tiles % runs;
  ColumnWalk walk;
  walk.sample = Block() / tiles / runs;
  walk.run = run;
  walk.column = int64_t{tile * kWarp + Thread() % kWarp} * kPack<T>;
  walk.count = walk.column < shape.channels ? PackCount<T>(shape.channels, walk.column) : 0;
  const int64_t begin = run * kRunRows, end = begin + kRunRows;
  const int64_t sample_row = walk.sample * shape.positions;
  walk.first_row = sample_row + begin + Thread() / kWarp;
  walk.end_row = sample_row + (end < shape.positions ? end : shape.positions);
  return walk;
}

// Calls f(index of the pack's first element) for each of the thread's rows.
template <typename F>
DPIPE_KERNEL_FUNCTION void ForRows(const ColumnWalk& walk, int64_t channels, const F& f) {
  if (walk.count == 0) return;
  for (int64_t row = walk.first_row; row < walk.end_row; row += kWarps) {
    f(row * channels + walk.column);
  }
}

// fp32 numbers of `run_sums`, which kernels that sum over positions work with: [batch, runs, terms,
// channels].
inline int64_t RunSumsSize(const ChannelsLast& shape, int terms) {
  return shape.batch * Runs(shape) * terms * shape.channels;
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_COLUMN_WALK_H_
