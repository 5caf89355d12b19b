// Walks channels-last data [batch, positions, channels] down its columns. A thread keeps one pack
// of channels, so that their parameters are loaded once, and goes through rows.
//
// Rows are divided into runs of kRunRows rows of a sample. A warp has kTilePacks adjacent packs (a
// cache line) of each of kTileRuns runs, so that few lanes are idle for any number of channels. A
// block's kWarps warps take every kWarps-th row of these runs. A thread's rows, and therefore the
// order of every sum, depend only on a sample's shape.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_COLUMN_WALK_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_COLUMN_WALK_H_

#include "core/ops/cuda/kernels/async_copy.h"
#include "core/ops/cuda/kernels/pack.h"

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

// Returns the number of groups of kTileRuns adjacent runs, over all samples.
DPIPE_KERNEL_FUNCTION int64_t RunGroups(const ChannelsLast& shape) {
  return (shape.batch * Runs(shape) + kTileRuns - 1) / kTileRuns;
}

// Returns the number of blocks of a kernel that walks.
template <typename T>
uint32_t WalkBlocks(const ChannelsLast& shape) {
  DPIPE_CHECK(shape.batch * shape.positions < int64_t{1} << 31) << "rows are counted in 32 bits";
  return BlocksFor(RunGroups(shape) * Tiles<T>(shape) * kThreads);
}

// A thread's position.
struct ColumnWalk {
  int sample, run;
  int column;              // first channel of the thread's pack
  int count;               // channels in the pack; 0: no pack
  int first_row, end_row;  // numbered over all samples; in steps of kWarps
};

// The order of blocks. A kernel that reads the same data as the previous one should start where
// that one ended, because that data is still in the cache.
enum class WalkOrder { kForwards, kBackwards };

template <typename T>
DPIPE_KERNEL_FUNCTION ColumnWalk WalkOf(const ChannelsLast& shape,
                                        WalkOrder order = WalkOrder::kForwards) {
  const uint32_t tiles = static_cast<uint32_t>(Tiles<T>(shape));
  const uint32_t runs = static_cast<uint32_t>(Runs(shape));
  const uint32_t lane = Thread() % kWarp;
  const uint32_t run_groups = static_cast<uint32_t>(RunGroups(shape));
  const uint32_t block = order == WalkOrder::kForwards ? Block() : run_groups * tiles - 1 - Block();
  const uint32_t run_of_all = block / tiles * kTileRuns + lane / kTilePacks;
  const int positions = static_cast<int>(shape.positions);
  ColumnWalk walk;
  walk.sample = static_cast<int>(run_of_all / runs);
  walk.run = static_cast<int>(run_of_all % runs);
  walk.column = static_cast<int>((block % tiles * kTilePacks + lane % kTilePacks) * kPack<T>);
  const bool has_pack = walk.sample < shape.batch && walk.column < shape.channels;
  walk.count = has_pack ? PackCount<T>(shape.channels, walk.column) : 0;
  const int begin = walk.run * kRunRows, end = begin + kRunRows;
  const int sample_row = walk.sample * positions;
  walk.first_row = sample_row + begin + static_cast<int>(Thread() / kWarp);
  walk.end_row = sample_row + (end < positions ? end : positions);
  return walk;
}

// Number of rows whose packs are in flight while another row's are used. During the latency of a
// load, an H200 moves 4.8 TB/s for about 0.7 us, or 25 KB per multiprocessor. Two blocks request at
// least 32 KB.
template <int kInputs>
constexpr int kRowsAhead = kInputs == 1 ? 4 : 2;

// The rows of several tensors that a thread walks. The constructor requests the first rows, so that
// their latency overlaps with that of the parameters a kernel loads for its channels.
template <typename T, int kInputs>
class Rows {
 public:
  DPIPE_KERNEL_FUNCTION Rows(const ColumnWalk& walk, int64_t channels,
                             const T* const (&inputs)[kInputs])
      : walk_(walk),
        inputs_(inputs),
        step_(kStep * channels),
        next_(walk.first_row * channels + walk.column),
        next_row_(walk.first_row),
        whole_(walk.count == kPack<T> && channels % kPack<T> == 0) {
    DPIPE_SHARED(Words, slots, (kAhead + 1) * kSlot);
    own_ = slots + Thread();
    DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) whole_ = whole_ && IsAligned(inputs[k]);
    if (!whole_) return;
    DPIPE_UNROLL for (int a = 0; a < kAhead; ++a) Ask(a * kSlot);
  }

  // Calls f(row, i, packs) for each row. i is the index of the pack's first element, and packs[k]
  // is the pack of inputs[k]. May be called only once.
  template <typename F>
  DPIPE_KERNEL_FUNCTION void ForEach(const F& f) {
    if (walk_.count == 0) return;
    int64_t i = next_;
    if (!whole_) {
      for (int row = walk_.first_row; row < walk_.end_row; row += kStep, i += step_) {
        Pack<T> packs[kInputs];
        DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) {
          packs[k] = LoadPack(inputs_[k] + i, walk_.count);
        }
        f(row, i, packs);
      }
      return;
    }
    i -= kAhead * step_;
    int slot = 0, last_slot = kAhead * kSlot;
    for (int row = walk_.first_row; row < walk_.end_row; row += kStep, i += step_) {
      copies_.template Wait<kAhead - 1>();
      Ask(last_slot);
      Pack<T> packs[kInputs];
      DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) Unpack(own_[slot + k * kThreads], &packs[k]);
      f(row, i, packs);
      last_slot = slot;
      slot = slot == kAhead * kSlot ? 0 : slot + kSlot;
    }
  }

 private:
  // A slot holds the packs of one row for all threads. There is one slot more than rows ahead, so
  // that copies never go to the slot being read.
  static constexpr int kAhead = kRowsAhead<kInputs>, kSlot = kInputs * kThreads;
  static constexpr int kStep = static_cast<int>(kWarps);

  // Requests the next row's packs. One index for all inputs takes fewer registers than a pointer
  // into each, because the inputs' addresses are kernel arguments.
  DPIPE_KERNEL_FUNCTION void Ask(int slot) {
    if (next_row_ < walk_.end_row) {
      DPIPE_UNROLL for (int k = 0; k < kInputs; ++k) {
        copies_.Copy(inputs_[k] + next_, own_ + slot + k * kThreads);
      }
    }
    copies_.EndGroup();
    next_ += step_;
    next_row_ += kStep;
  }

  const ColumnWalk& walk_;
  const T* const (&inputs_)[kInputs];
  const int64_t step_;
  int64_t next_;  // index of the next row's pack to request
  int next_row_;
  bool whole_;
  Words* own_;
  AsyncCopies<(kAhead + 1) * kInputs> copies_;
};

// Returns the size, in fp32 numbers, of `run_sums`: [batch, runs, terms, channels], the workspace
// of kernels that sum over positions.
inline int64_t RunSumsSize(const ChannelsLast& shape, int terms) {
  return shape.batch * Runs(shape) * terms * shape.channels;
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_COLUMN_WALK_H_
