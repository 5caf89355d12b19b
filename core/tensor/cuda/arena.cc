#include "core/tensor/cuda/arena.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe::cuda {

int64_t Arena::Place(int64_t size_bytes) {
  DPIPE_CHECK(size_bytes > 0) << "a block of " << size_bytes << " bytes";
  int64_t place = 0;
  for (const auto& [begin, end] : blocks_) {
    if (begin - place >= size_bytes) break;
    place = end;
  }
  blocks_[place] = place + size_bytes;
  most_bytes_ = std::max(most_bytes_, place + size_bytes);
  return place;
}

void Arena::Remove(int64_t place) { DPIPE_CHECK_EQ(blocks_.erase(place), 1u) << "at " << place; }

}  // namespace dpipe::cuda
