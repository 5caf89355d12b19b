#include "data/cache_store.h"

#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

class CacheStoreTest : public testing::Test {
 protected:
  std::unique_ptr<CacheStore> Open(int64_t shard_bytes = 1 << 20) {
    CacheStoreOptions options;
    options.shard_bytes = shard_bytes;
    auto store = CacheStore::Open(folder_, options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static std::string Value(int i) { return std::string(10 + 37 * i, static_cast<char>('a' + i)); }
  static std::string Key(int i) { return absl::StrCat("key ", i); }
  void AddAll(CacheStore* store, int begin, int end) {
    for (int i = begin; i < end; ++i) ASSERT_TRUE(store->Add(Key(i), Value(i)).ok());
    ASSERT_TRUE(store->Commit().ok());
  }
  static int CountSound(const CacheStore& store, int end) {
    int sound = 0;
    for (int i = 0; i < end; ++i) {
      const auto value = store.Find(Key(i));
      if (!value.has_value()) continue;
      EXPECT_EQ(*value, Value(i));
      ++sound;
    }
    return sound;
  }
  std::string ShardPath(int number) { return absl::StrCat(folder_, "/00000", number, ".shard"); }
  const ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(CacheStoreTest, RemembersAcrossRuns) {
  {
    const auto store = Open();
    EXPECT_FALSE(store->Find(Key(0)).has_value());
    ASSERT_TRUE(store->Add(Key(0), Value(0)).ok());
    EXPECT_FALSE(store->Find(Key(0)).has_value()) << "before it is committed";
    ASSERT_TRUE(store->Add("empty", "").ok());
    AddAll(store.get(), 1, 5);
    EXPECT_EQ(CountSound(*store, 5), 5);
    EXPECT_EQ(*store->Find("empty"), "");
  }
  const auto store = Open();
  EXPECT_EQ(CountSound(*store, 6), 5);
  EXPECT_EQ(store->num_entries(), 6);
  EXPECT_EQ(store->num_damaged(), 0);
  AddAll(store.get(), 5, 8);
  EXPECT_EQ(CountSound(*Open(), 8), 8);
}

TEST_F(CacheStoreTest, ShardsAreOfBoundedSize) {
  AddAll(Open(/*shard_bytes=*/500).get(), 0, 20);
  EXPECT_EQ(access(ShardPath(4).c_str(), F_OK), 0);
  EXPECT_EQ(CountSound(*Open(), 20), 20);
}

TEST_F(CacheStoreTest, UncommittedEntriesAreLost) {
  AddAll(Open().get(), 0, 2);
  ASSERT_TRUE(Open()->Add(Key(2), Value(2)).ok());
  // A killed process leaves its temporary file behind.
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/77-0.tmp", "DPCACHE1 and so").ok());
  EXPECT_EQ(CountSound(*Open(), 3), 2);
}

// Damages each byte. Results are always right, and missing values can be added again.
TEST_F(CacheStoreTest, DamagedEntriesAreNeverFound) {
  AddAll(Open().get(), 0, 6);
  const std::string good = ReadFile(ShardPath(0)).value();
  int num_lost = 0;
  for (int trial = 0; trial < 200; ++trial) {
    RandomStream random(9, trial, 0, RandomPurpose::kTest);
    std::string damaged = good;
    damaged[random.NextBelow(damaged.size())] ^= static_cast<char>(1 << random.NextBelow(8));
    if (trial % 4 == 0) damaged.resize(random.NextBelow(damaged.size()));
    ASSERT_TRUE(WriteFileAtomically(ShardPath(0), damaged).ok());
    const auto store = Open();
    const int sound = CountSound(*store, 6);
    num_lost += 6 - sound;
    if (trial % 20 != 0) continue;
    AddAll(store.get(), 0, 6);
    EXPECT_EQ(CountSound(*Open(), 6), 6);
    unlink(ShardPath(1).c_str());
  }
  EXPECT_GT(num_lost, 200);
}

TEST_F(CacheStoreTest, SeveralMayWrite) {
  std::vector<std::thread> threads;
  const auto a = Open(300), b = Open(300);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 20; i += 4) EXPECT_TRUE((t < 2 ? a : b)->Add(Key(i), Value(i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(a->Commit().ok() && b->Commit().ok());
  EXPECT_EQ(CountSound(*Open(), 20), 20);
}

TEST_F(CacheStoreTest, OtherFoldersAreRefused) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/thesis.txt", "x").ok());
  EXPECT_THAT(std::string(CacheStore::Open(folder_).status().message()), HasSubstr("thesis.txt"));
  EXPECT_FALSE(CacheStore::Open("/proc/no/such/place").ok());
}

}  // namespace
}  // namespace dpipe
