// Counter-based random numbers. The value at a counter needs no state and no drawing order, so it
// does not depend on the device that draws it, or on the time.
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#ifndef DPIPE_CORE_BASE_PHILOX_H_
#define DPIPE_CORE_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace dpipe {

// Computes the bijection itself: 128-bit counter, 64-bit key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The use of a number. The values are part of what makes a run reproducible: append only.
enum class RandomPurpose : uint32_t {
  kNoise = 1,
  kTimestep = 2,
  kVaeNoise = 3,
  kCaptionDrop = 4,
  kCrop = 5,
  kFlip = 6,
  kShuffle = 7,
  kInit = 8,
  kSample = 9,
  kDataset = 10,
  kTest = 11,
  kOffsetNoise = 12,
  kCaption = 13,
};

// A stream of numbers keyed by (seed, step, sample, purpose); `sample` is a global sample index.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t step, uint32_t sample, RandomPurpose purpose);

  uint32_t NextUint32();
  // Returns a uniform number in [0, bound), bound > 0; unbiased to within 2^-32.
  uint32_t NextBelow(uint32_t bound);
  // Returns a uniform number in [0, 1), a multiple of 2^-24.
  float NextUniform();
  // Returns a standard normal number (Box-Muller).
  float NextNormal();

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_ = {};
  int used_ = 4;
  bool has_spare_normal_ = false;
  float spare_normal_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_PHILOX_H_
