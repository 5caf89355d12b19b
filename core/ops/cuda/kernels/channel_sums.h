// Sums over positions of channels-last data, one or more per channel, as
// core/ops/support/channel_sums.h computes them on CPUs: in fp32 over runs of 128 positions, in
// double over the runs of a sample.
//
// Within a run each of 8 threads adds every eighth position; then the eight sums are added in
// order. A few runs are also added in order. For many runs, as in a bias's gradient, each of 32
// threads adds every 32nd run. The 32 sums are then added pairwise within warps, and the warps'
// sums in order. CPUs add positions and runs one by one. The error is equally small, but the bits
// differ.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_CHANNEL_SUMS_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_CHANNEL_SUMS_H_

#include "core/ops/cuda/kernels/column_walk.h"

namespace dpipe::ops::cuda {

// Adds up number s of this thread's lane over all warps in order: partial[s * kThreads + thread].
DPIPE_KERNEL_FUNCTION float AddWarps(const float* partial, uint32_t s) {
  const uint32_t lane = Thread() % kWarp;
  float sum = partial[s * kThreads + lane];
  for (uint32_t w = 1; w < kWarps; ++w) sum += partial[s * kThreads + w * kWarp + lane];
  return sum;
}

// The first half: sums within runs. Terms has
//   static constexpr int kTerms;
//   static constexpr int kInputs;
//   const T* inputs[kInputs];
//   struct Channels;                                   // parameters of a pack of channels
//   Channels Prepare(const ColumnWalk& walk) const;
//   void Add(const Channels&, int row, const Pack<T> (&packs)[kInputs],
//            float (&sums)[kTerms][kPack<T>]) const;
//   void Finish(const ColumnWalk& walk, float (&sums)[kTerms][kPack<T>]) const;
// and Finish is called after the last row.
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
      Rows<T, Terms::kInputs> rows(walk, shape.channels, terms.inputs);
      const typename Terms::Channels channels = terms.Prepare(walk);
      rows.ForEach([&](int row, int64_t, const Pack<T>(&packs)[Terms::kInputs]) {
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

// Input and output of the second half. Sum number i is that of term k of channel c of sample b,
//   i = (b * terms + k) * channels + c.
// It is written to, or added to,
//   out[(b * terms * channels) + k * term_stride + c * channel_stride].
template <typename Out, bool kAdd>
struct TotalsOfRuns {
  ChannelsLast shape;
  int terms;
  int64_t term_stride, channel_stride;
  const float* run_sums;
  Out* out;

  DPIPE_KERNEL_FUNCTION int64_t OfSample() const { return terms * shape.channels; }
  DPIPE_KERNEL_FUNCTION int64_t Count() const { return shape.batch * OfSample(); }

  // Adds runs `first`, first + step, ... of sum i, in this order. Requests kAhead runs before
  // waiting for the first of them.
  DPIPE_KERNEL_FUNCTION double Add(int64_t i, int64_t first, int64_t step) const {
    constexpr int kAhead = 8;
    const int64_t runs = Runs(shape), of_sample = OfSample(), stride = step * of_sample;
    const float* from = run_sums + (i / of_sample * runs + first) * of_sample + i % of_sample;
    double sum = 0;
    int64_t run = first;
    for (; run + (kAhead - 1) * step < runs; run += kAhead * step, from += kAhead * stride) {
      float values[kAhead];
      DPIPE_UNROLL for (int a = 0; a < kAhead; ++a) values[a] = from[a * stride];
      DPIPE_UNROLL for (int a = 0; a < kAhead; ++a) sum += values[a];
    }
    for (; run < runs; run += step, from += stride) sum += *from;
    return sum;
  }
  DPIPE_KERNEL_FUNCTION void Write(int64_t i, double sum) const {
    const int64_t of_sample = OfSample(), begin = i / of_sample * of_sample;
    const int64_t term = i % of_sample / shape.channels, channel = i % shape.channels;
    Out* const to = out + begin + term * term_stride + channel * channel_stride;
    if (kAdd) sum += Load(to);
    Store(to, static_cast<float>(sum));
  }
};

// The second half, with one thread per sum.
template <typename Sums>
struct AddFewRuns {
  Sums sums;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll();
    if (i < sums.Count()) sums.Write(i, sums.Add(i, 0, 1));
  }
};

// The second half for many runs, which a single thread per sum would add for longer than the first
// half takes. Example: a bias's gradient has one sample of thousands of runs, and few channels,
// whose threads would fill only a few blocks. A block here computes kSideBySide sums, 32 bytes of a
// row, the unit of memory access. Each sum has kThreads / kSideBySide threads.
constexpr int kManyRuns = 64;
constexpr uint32_t kSideBySide = 8;

template <typename Sums>
struct AddManyRuns {
  Sums sums;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    DPIPE_SHARED(double, of_warps, kWarps* kSideBySide);
    const int64_t i = int64_t{Block()} * kSideBySide + Thread() % kSideBySide;
    const bool exists = i < sums.Count();
    double sum = exists ? sums.Add(i, Thread() / kSideBySide, kThreads / kSideBySide) : 0.0;
    for (uint32_t mask = kWarp / 2; mask >= kSideBySide; mask /= 2) sum += LaneXor(sum, mask);
    const uint32_t lane = Thread() % kWarp;
    if (lane < kSideBySide) of_warps[Thread() / kWarp * kSideBySide + lane] = sum;
    Barrier();
    if (Thread() >= kSideBySide || !exists) return;
    for (uint32_t w = 1; w < kWarps; ++w) sum += of_warps[w * kSideBySide + Thread()];
    sums.Write(i, sum);
  }
};

// Launch the two halves. `run_sums` is workspace of RunSumsSize numbers.
template <typename T, typename Terms>
void LaunchSumRuns(const Stream& stream, const Terms& terms, const ChannelsLast& shape,
                   float* run_sums) {
  Launch(stream, WalkBlocks<T>(shape), SumRuns<T, Terms>{terms, shape, run_sums});
}
template <bool kAdd, typename Out>
void LaunchFinishSums(const Stream& stream, const ChannelsLast& shape, int terms,
                      int64_t term_stride, int64_t channel_stride, const float* run_sums,
                      Out* out) {
  using Sums = TotalsOfRuns<Out, kAdd>;
  const Sums sums = {shape, terms, term_stride, channel_stride, run_sums, out};
  if (Runs(shape) < kManyRuns) {
    Launch(stream, BlocksFor(sums.Count()), AddFewRuns<Sums>{sums});
  } else {
    const int64_t blocks = (sums.Count() + kSideBySide - 1) / kSideBySide;
    Launch(stream, BlocksFor(blocks * kThreads), AddManyRuns<Sums>{sums});
  }
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_CHANNEL_SUMS_H_
