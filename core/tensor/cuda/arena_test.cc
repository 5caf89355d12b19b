#include <vector>

#include "core/base/philox.h"
#include "core/tensor/cuda/stream_ordered_allocator.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

TEST(ArenaTest, PlacesAtLowestOffsetThatFits) {
  Arena arena;
  EXPECT_EQ(arena.Place(100), 0);
  EXPECT_EQ(arena.Place(50), 100);
  EXPECT_EQ(arena.Place(10), 150);
  arena.Remove(100);
  EXPECT_EQ(arena.Place(51), 160);
  EXPECT_EQ(arena.Place(20), 100);
  EXPECT_EQ(arena.Place(30), 120);
  EXPECT_EQ(arena.most_bytes(), 211);
  for (int64_t place : {0, 100, 120, 150, 160}) arena.Remove(place);
  EXPECT_TRUE(arena.empty());
  EXPECT_EQ(arena.most_bytes(), 211);
}

TEST(ArenaTest, BlocksNeverOverlap) {
  RandomStream random(3, 0, 0, RandomPurpose::kTest);
  Arena arena;
  std::vector<std::pair<int64_t, int64_t>> blocks;
  for (int i = 0; i < 2000; ++i) {
    if (!blocks.empty() && random.NextBelow(2) == 0) {
      const size_t gone = random.NextBelow(blocks.size());
      arena.Remove(blocks[gone].first);
      blocks.erase(blocks.begin() + gone);
      continue;
    }
    const int64_t size = 1 + random.NextBelow(100);
    const int64_t place = arena.Place(size);
    for (const auto& [begin, end] : blocks) {
      ASSERT_TRUE(place + size <= begin || end <= place) << i;
    }
    blocks.emplace_back(place, place + size);
    EXPECT_LE(place + size, arena.most_bytes());
  }
}

}  // namespace
}  // namespace dpipe::cuda
