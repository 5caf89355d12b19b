// Walks channels-last data [batch, positions, channels] down its columns. A thread keeps one pack
// of channels, so that their parameters are loaded once, and goes through rows.
//
// Rows are divided into runs of kRunRows rows of a sample. A warp has kTilePacks adjacent packs (a
// cache line) of each of kTileRuns runs, so that few lanes are idle for any number of channels. A
// block's kWarps warps take every kWarps-th row of these runs. A thread's rows, and therefore the
// order of every sum, depend only on a sample's shape.
#ifndef DPIPE_CORE_OPS_CUDA_COLUMN_WALK_H_
#define DPIPE_CORE_OPS_CUDA_COLUMN_WALK_H_

#include "core/ops/cuda/async_copy.h"
#include "core/ops/cuda/pack.h"

namespace dpipe::ops::cuda {

struct ChannelsLast {
  int64_t batch, positions, channels;
};

// Rows per run: 16 for each thread.
constexpr int kRunRows = 128;

constexpr uint32_t kTilePacks = 8;
constexpr uint32_t kTileRuns = kWarp / kTilePacks;

DPIPE_KERNEL_FUNCTION int64_t Runs(const ChannelsLast& shape) {
  return (shape.positions + kRunRows - 1) / kRunRows;
}

template <typename T>
DPIPE_KERNEL_FUNCTION int64_t Tiles(const ChannelsLast& shape) {
  return (Packs<T>(shape.channels) + kTilePacks - 1) / kTilePacks;
}

// Returns the number of blocks of a kernel that walks.
template <typename T>
uint32_t WalkBlocks(const ChannelsLast& shape) {
  DPIPE_CHECK(shape.batch * shape.positions < int64_t{1} << 31) << "rows are counted in 32 bits";
  const int64_t run_groups = (shape.batch * Runs(shape) + kTileRuns - 1) / kTileRuns;
  return BlocksFor(run_groups * Tiles<T>(shape) * kThreads);
}

// A thread's position.
struct ColumnWalk {
  int sample, run;
  int column;              // of the pack's first channel
  int count;               // its number of channels; 0: none
  int first_row, end_row;  // counted over all samples; in steps of kWarps
};

template <typename T>
DPIPE_KERNEL_FUNCTION ColumnWalk WalkOf(const ChannelsLast& shape) {
  const uint32_t tiles = static_cast<uint32_t>(Tiles<T>(shape));
  const uint32_t runs = static_cast<uint32_t>(Runs(shape));
  const uint32_t lane = Thread() % kWarp;
  const uint32_t run_of_all = Block() / tiles * kTileRuns + lane / kTilePacks;
  const int positions = static_cast<int>(shape.positions);
  ColumnWalk walk;
  walk.sample = static_cast<int>(run_of_all / runs);
  walk.run = static_cast<int>(run_of_all % runs);
  walk.column = static_cast<int>((Block() % tiles * kTilePacks + lane % kTilePacks) * kPack<T>);
  const bool has_pack = walk.sample < shape.batch && walk.column < shape.channels;
  walk.count = has_pack ? PackCount<T>(shape.channels, walk.column) : 0;
  const int begin = walk.run * kRunRows, end = begin + kRunRows;
  const int sample_row = walk.sample * positions;
  walk.first_row = sample_row + begin + static_cast<int>(Thread() / kWarp);
  walk.end_row = sample_row + (end < positions ? end : positions);
  return walk;
}

// Rows whose packs are in flight while another row's are used. During the latency of a load, an
// H200 moves 4.8 TB/s for about 0.7 us, or 25 KB per multiprocessor. Two blocks request at least 32
// KB.
template <int kInputs>
constexpr int kRowsAhead = kInputs == 1 ? 4 : 2;

// Calls f(row, i, packs) for each of the thread's rows. i is the index of its pack's first element,
// and packs[k] the pack at that index of inputs[k].
template <typename T, int kInputs, typename F>
DPIPE_KERNEL_FUNCTION void ForRows(const ColumnWalk& walk, int64_t channels,
                                   const T* const (&inputs)[kInputs], const F& f) {
  // A slot holds one row's packs of all threads. With one more slot than rows in flight, no copy
  // targets a slot that was just read.
  constexpr int kAhead = kRowsAhead<kInputs>, kSlot = kInputs * kThreads;
  DPIPE_SHARED(Words, slots, (kAhead + 1) * kSlot);
  if (walk.count == 0) return;
  bool whole = walk.count == kPack<T> && channels % kPack<T> == 0;
  DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) whole = whole && IsAligned(inputs[k]);
  constexpr int kStep = static_cast<int>(kWarps);
  const int64_t step = kStep * channels;
  int64_t i = walk.first_row * channels + walk.column;
  if (!whole) {
    for (int row = walk.first_row; row < walk.end_row; row += kStep, i += step) {
      Pack<T> packs[kInputs];
      DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) packs[k] = LoadPack(inputs[k] + i, walk.count);
      f(row, i, packs);
    }
    return;
  }
  Words* const own = slots + Thread();
  AsyncCopies<(kAhead + 1) * kInputs> copies;
  int next_row = walk.first_row;
  const T* next[kInputs];
  DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) next[k] = inputs[k] + i;
  const auto ask = [&](int slot) {
    if (next_row < walk.end_row) {
      DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) {
        copies.Copy(next[k], own + slot + k * kThreads);
        next[k] += step;
      }
    }
    copies.EndGroup();
    next_row += kStep;
  };
  DPIPE_UNROLL for (int a = 0; a < kAhead; ++a) ask(a * kSlot);
  int slot = 0, last_slot = kAhead * kSlot;
  for (int row = walk.first_row; row < walk.end_row; row += kStep, i += step) {
    copies.template Wait<kAhead - 1>();
    ask(last_slot);
    Pack<T> packs[kInputs];
    DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) Unpack(own[slot + k * kThreads], &packs[k]);
    f(row, i, packs);
    last_slot = slot;
    slot = slot == kAhead * kSlot ? 0 : slot + kSlot;
  }
}

// fp32 numbers of `run_sums`, the workspace of kernels that sum over positions: [batch, runs,
// terms, channels].
inline int64_t RunSumsSize(const ChannelsLast& shape, int terms) {
  return shape.batch * Runs(shape) * terms * shape.channels;
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_COLUMN_WALK_H_
