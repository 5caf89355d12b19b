#include "data/prefetcher.h"

#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::ElementsAre;

TEST(PrefetcherTest, DoesAllWorkOnce) {
  std::mutex mutex;
  std::multiset<int64_t> done;
  Prefetcher prefetcher(3, 1000, [&](int64_t position) {
    std::lock_guard<std::mutex> lock(mutex);
    done.insert(position);
  });
  for (int64_t i = 0; i < 100; ++i) prefetcher.Enqueue(i);
  prefetcher.WaitUntilIdle();
  EXPECT_EQ(done.size(), 100u);
  EXPECT_EQ(std::set<int64_t>(done.begin(), done.end()).size(), 100u);
}

// One thread, held at position 0 while the queue of two overflows.
TEST(PrefetcherTest, AFullQueueDropsTheOldest) {
  std::promise<void> started, release;
  std::vector<int64_t> done;
  Prefetcher prefetcher(1, 2, [&](int64_t position) {
    if (position == 0) {
      started.set_value();
      release.get_future().wait();
    }
    done.push_back(position);
  });
  prefetcher.Enqueue(0);
  started.get_future().wait();
  for (const int64_t position : {1, 2, 2, 3, 4}) prefetcher.Enqueue(position);
  release.set_value();
  prefetcher.WaitUntilIdle();
  EXPECT_THAT(done, ElementsAre(0, 3, 4));
}

TEST(PrefetcherTest, EndsWithWorkStillQueued) {
  std::promise<void> started, release;
  int count = 0;
  std::thread releaser;
  {
    Prefetcher prefetcher(1, 10, [&](int64_t position) {
      if (count++ == 0) {
        started.set_value();
        release.get_future().wait();
      }
    });
    for (int64_t i = 0; i < 10; ++i) prefetcher.Enqueue(i);
    started.get_future().wait();
    releaser = std::thread([&] { release.set_value(); });
  }
  releaser.join();
  EXPECT_GE(count, 1);
}

}  // namespace
}  // namespace dpipe
