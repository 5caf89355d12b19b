// Identifiers of transfers, which both sides compute identically.
#ifndef DPIPE_CORE_COMM_GLOO_GLOO_SLOT_H_
#define DPIPE_CORE_COMM_GLOO_GLOO_SLOT_H_

#include <cstdint>
#include <initializer_list>

namespace dpipe {

// Mixes a few numbers into 64 bits. Among the few thousand transfers that a run distinguishes, two
// get the same slot with a probability of 1e-12.
inline uint64_t GlooSlot(std::initializer_list<uint64_t> parts) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (uint64_t part : parts) {
    // The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
    hash += part + 0x9e3779b97f4a7c15;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
    hash ^= hash >> 31;
  }
  return hash;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_GLOO_GLOO_SLOT_H_
