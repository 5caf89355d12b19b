// Sums over positions of channels-last data, one or more a channel, as channel_sums.h has them for
// CPUs: in fp32 over runs of 128 positions, in double over the runs of a sample.
//
// Within a run each of 8 threads adds every eighth position, then the eight are added in order.
#ifndef DPIPE_CORE_OPS_CUDA_CHANNEL_SUMS_H_
#define DPIPE_CORE_OPS_CUDA_CHANNEL_SUMS_H_

#include "core/ops/cuda/column_walk.h"

namespace dpipe::ops::cuda {

// Number s of this thread's lane, of all warps in their order: partial[s * kThreads + thread].
DPIPE_KERNEL_FUNCTION float AddWarps(const float* partial, uint32_t s) {
  const uint32_t lane = Thread() % kWarp;
  float sum = partial[s * kThreads + lane];
  for (uint32_t w = 1; w < kWarps; ++w) sum += partial[s * kThreads + w * kWarp + lane];
  return sum;
}

// The first half. Terms has
//   static constexpr int kTerms;
//   static constexpr int kInputs;
//   const T* inputs[kInputs];
//   struct Channels;                                   // what it wants to know of a pack of them
//   Channels Prepare(const ColumnWalk& walk) const;
//   void Add(const Channels&, int row, const Pack<T> (&packs)[kInputs],
//            float (&sums)[kTerms][kPack<T>]) const;
//   void Finish(const ColumnWalk& walk, float (&sums)[kTerms][kPack<T>]) const;
// where Finish is called after the last row.
template <typename T, typename Terms>
struct SumRuns {
  Terms terms;
  ChannelsLast shape;
  float* run_sums;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    constexpr int kSums = Terms::kTerms * kPack<T>;
    DPIPE_SHARED(float, partial, kSums* kThreads);
    const ColumnWalk walk = WalkOf<T>(shape);
    float sums[Terms::kTerms][kPack<T>] = {};
    if (walk.count > 0) {
      const typename Terms::Channels channels = terms.Prepare(walk);
      ForRows(walk, shape.channels, terms.inputs,
              [&](int row, int64_t, const Pack<T>(&packs)[Terms::kInputs]) {
                terms.Add(channels, row, packs, sums);
              });
      terms.Finish(walk, sums);
    }
    DPIPE_UNROLL for (int s = 0; s < kSums; ++s) {
      partial[s * kThreads + Thread()] = sums[s / kPack<T>][s % kPack<T>];
    }
    Barrier();
    for (uint32_t s = Thread() / kWarp; s < kSums; s += kWarps) {
      if (static_cast<int>(s % kPack<T>) >= walk.count) continue;
      const int64_t row = (walk.sample * Runs(shape) + walk.run) * Terms::kTerms + s / kPack<T>;
      run_sums[row * shape.channels + walk.column + s % kPack<T>] = AddWarps(partial, s);
    }
  }
};

// The second half, for one channel: sum `term` of `terms`.
DPIPE_KERNEL_FUNCTION double AddRuns(const ChannelsLast& shape, int terms, const float* run_sums,
                                     int64_t sample, int term, int64_t channel) {
  double sum = 0;
  for (int64_t run = 0; run < Runs(shape); ++run) {
    const int64_t row = (sample * Runs(shape) + run) * terms + term;
    sum += run_sums[row * shape.channels + channel];
  }
  return sum;
}

// The second half for all channels: a thread each, writing sum k of channel c of sample b to
// out[(b * terms * channels) + k * term_stride + c * channel_stride], or adding it there.
template <typename Out, bool kAdd>
struct FinishSums {
  ChannelsLast shape;
  int terms;
  int64_t term_stride, channel_stride;
  const float* run_sums;
  Out* out;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll();
    if (i >= shape.batch * terms * shape.channels) return;
    const int64_t channel = i % shape.channels, sample = i / shape.channels / terms;
    const int term = static_cast<int>(i / shape.channels % terms);
    double sum = AddRuns(shape, terms, run_sums, sample, term, channel);
    Out* const to =
        out + sample * terms * shape.channels + term * term_stride + channel * channel_stride;
    if (kAdd) sum += Load(to);
    Store(to, static_cast<float>(sum));
  }
};

// Both halves. `run_sums`: RunSumsSize numbers to work with.
template <typename T, typename Terms>
void LaunchSumRuns(const Stream& stream, const Terms& terms, const ChannelsLast& shape,
                   float* run_sums) {
  Launch(stream, WalkBlocks<T>(shape), SumRuns<T, Terms>{terms, shape, run_sums});
}
template <bool kAdd, typename Out>
void LaunchFinishSums(const Stream& stream, const ChannelsLast& shape, int terms,
                      int64_t term_stride, int64_t channel_stride, const float* run_sums,
                      Out* out) {
  Launch(stream, BlocksFor(shape.batch * terms * shape.channels),
         FinishSums<Out, kAdd>{shape, terms, term_stride, channel_stride, run_sums, out});
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CHANNEL_SUMS_H_
