#include "core/base/philox.h"

#include <cmath>

#include "core/base/check.h"

namespace dpipe {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

RandomStream::RandomStream(uint64_t seed, uint64_t step, uint32_t sample, RandomPurpose purpose) {
  // One application of the bijection folds the step into the key, which leaves three counter words
  // for sample, purpose and position.
  const auto mixed =
      Philox4x32({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  key_ = {mixed[0], mixed[1]};
  counter_ = {0, sample, static_cast<uint32_t>(purpose), mixed[2]};
}

uint32_t RandomStream::NextUint32() {
  if (used_ == 4) {
    block_ = Philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint32_t RandomStream::NextBelow(uint32_t bound) {
  DPIPE_CHECK_GT(bound, 0u);
  return static_cast<uint32_t>((uint64_t{NextUint32()} * bound) >> 32);
}

float RandomStream::NextUniform() { return (NextUint32() >> 8) * (1.0f / 16777216.0f); }

float RandomStream::NextNormal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  // 1 - u is in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - NextUniform()));
  const double angle = 2.0 * M_PI * NextUniform();
  has_spare_normal_ = true;
  spare_normal_ = static_cast<float>(radius * std::sin(angle));
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace dpipe
