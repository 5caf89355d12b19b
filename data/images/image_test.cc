#include "data/images/image.h"

#include "gtest/gtest.h"

namespace dpipe {

namespace {

std::shared_ptr<const Image> Pixels(int count) { return std::make_shared<Image>(count, 1); }

TEST(ImageCacheTest, EvictsLeastRecentlyUsedFirst) {
  ImageCache cache(/*max_bytes=*/9);  // three pixels
  cache.Insert(1, Pixels(1));
  cache.Insert(2, Pixels(1));
  cache.Insert(3, Pixels(1));
  EXPECT_NE(cache.Find(1), nullptr);  // now 2 is the oldest
  cache.Insert(4, Pixels(1));
  EXPECT_EQ(cache.Find(2), nullptr);
  EXPECT_NE(cache.Find(1), nullptr);
  EXPECT_NE(cache.Find(3), nullptr);
  EXPECT_EQ(cache.size_bytes(), 9);
  cache.Insert(5, Pixels(2));  // evicts both
  EXPECT_EQ(cache.Find(4), nullptr);
  EXPECT_EQ(cache.Find(1), nullptr);
  EXPECT_NE(cache.Find(3), nullptr);
  EXPECT_EQ(cache.size_bytes(), 9);
}

TEST(ImageCacheTest, ImagesLargerThanTheCacheAreNotKept) {
  ImageCache cache(/*max_bytes=*/9);
  cache.Insert(1, Pixels(1));
  cache.Insert(2, Pixels(4));
  EXPECT_EQ(cache.Find(2), nullptr);
  EXPECT_NE(cache.Find(1), nullptr);
}

TEST(ImageCacheTest, InsertingTwiceCountsOnce) {
  ImageCache cache(/*max_bytes=*/9);
  cache.Insert(1, Pixels(1));
  cache.Insert(1, Pixels(1));
  EXPECT_EQ(cache.size_bytes(), 3);
}

}  // namespace

}  // namespace dpipe
