#include "core/tensor/cuda/stream_ordered_allocator.h"

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/philox.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::IsEmpty;

class StreamOrderedAllocatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<StreamOrderedAllocator> Make() { return MakeOn(stream_); }
  std::unique_ptr<StreamOrderedAllocator> MakeOn(Stream stream) {
    return std::make_unique<StreamOrderedAllocator>(
        &driver_, Context{}, *driver_.CreatePool({}), stream, "cuda:0",
        [this](const absl::Status& status) { kept_.Update(status); });
  }
  // Records that the work enqueued on `user` so far uses the blocks.
  void AddUse(StreamOrderedAllocator* allocator, std::vector<void*> blocks, Stream user) {
    const auto end = std::make_shared<const OwnedEvent>(&driver_, *driver_.CreateEvent({}));
    EXPECT_TRUE(driver_.Record(end->get(), user).ok());
    allocator->AddUse(blocks, user, end);
  }

  FakeDriver driver_;
  const Stream stream_ = *driver_.CreateStream({});
  const Stream other_ = *driver_.CreateStream({});
  absl::Status kept_;
};

TEST_F(StreamOrderedAllocatorTest, CountsAllocatedBytes) {
  const auto allocator = Make();
  void* const a = allocator->Allocate(1000);  // takes 1024
  void* const b = allocator->Allocate(1);     // takes 512
  EXPECT_EQ(allocator->stats().allocated_bytes, 1536);
  allocator->Free(a, 1000);
  EXPECT_EQ(allocator->stats().allocated_bytes, 512);
  EXPECT_EQ(allocator->stats().peak_bytes, 1536);
  allocator->ResetPeak();
  EXPECT_EQ(allocator->stats().peak_bytes, 512);
  EXPECT_EQ(allocator->stats().reserved_bytes, 1536);
  allocator->Free(b, 1);
}

TEST_F(StreamOrderedAllocatorTest, BlockOutlivesUseByAnotherStream) {
  const auto allocator = Make();
  void* const data = allocator->Allocate(512);
  bool used = false;
  ASSERT_TRUE(driver_.Enqueue(other_, [&] { used = true; }).ok());
  AddUse(allocator.get(), {data}, other_);
  allocator->Free(data, 512);
  ASSERT_TRUE(driver_.Synchronize(stream_).ok());
  EXPECT_TRUE(used || driver_.live_bytes() == 512);
  ASSERT_TRUE(driver_.Synchronize(other_).ok());
  allocator->Free(allocator->Allocate(512), 512);  // collects freed blocks
  ASSERT_TRUE(driver_.Synchronize(stream_).ok());
  EXPECT_EQ(driver_.live_bytes(), 0);
}

TEST_F(StreamOrderedAllocatorTest, ShortMemoryWaitsForFreedBlocks) {
  const auto allocator = Make();
  driver_.set_memory_limit(1024);
  void* const data = allocator->Allocate(1024);
  ASSERT_TRUE(driver_.Fill(data, 1, 1024, other_).ok());
  AddUse(allocator.get(), {data}, other_);
  allocator->Free(data, 1024);
  void* const again = allocator->Allocate(1024);
  EXPECT_NE(again, nullptr);
  allocator->Free(again, 1024);
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

// Another allocator keeps unused memory, freed behind work of its own stream and of a third one.
TEST_F(StreamOrderedAllocatorTest, ShortMemoryIsTakenFromOtherPools) {
  const auto keeper = Make();
  const auto allocator = MakeOn(other_);
  const Stream third = *driver_.CreateStream({});
  driver_.set_memory_limit(4096);
  void* const lent = keeper->Allocate(2048);
  ASSERT_TRUE(driver_.Fill(lent, 1, 2048, third).ok());
  AddUse(keeper.get(), {lent}, third);
  keeper->Free(lent, 2048);
  void* const own = keeper->Allocate(1024);
  ASSERT_TRUE(driver_.Fill(own, 1, 1024, stream_).ok());
  keeper->Free(own, 1024);
  void* const data = allocator->Allocate(4096);
  EXPECT_EQ(keeper->stats().reserved_bytes, 0);
  ASSERT_TRUE(driver_.Fill(data, 1, 4096, other_).ok());
  allocator->Free(data, 4096);
  EXPECT_NE(keeper->AllocateIfRoom(4096), nullptr);
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

// Like a stream that waits for a message from a sender that needs memory first.
TEST_F(StreamOrderedAllocatorTest, DoesNotWaitForStreamsWhoseMemoryIsNotNeeded) {
  const Stream third = *driver_.CreateStream({});
  const auto keeper = Make(), stuck = MakeOn(third);
  const auto allocator = MakeOn(other_);
  driver_.set_memory_limit(4096);
  bool sent = false;
  ASSERT_TRUE(driver_
                  .Enqueue(
                      third, [] {}, [&sent] { return sent; })
                  .ok());
  stuck->Free(stuck->Allocate(1024), 1024);
  keeper->Free(keeper->Allocate(3072), 3072);
  void* const data = allocator->Allocate(3072);
  EXPECT_EQ(stuck->stats().reserved_bytes, 1024);
  allocator->Free(data, 3072);
  sent = true;
  driver_.RunAll();
}

TEST_F(StreamOrderedAllocatorTest, OtherGpusKeepTheirMemory) {
  driver_.SetNumGpus(2);
  const Context there{1, 132, nullptr};
  const Stream stream = *driver_.CreateStream(there);
  StreamOrderedAllocator keeper(&driver_, there, *driver_.CreatePool(there), stream, "cuda:1",
                                nullptr);
  const auto allocator = Make();
  driver_.set_memory_limit(2048);
  keeper.Free(keeper.Allocate(2048), 2048);
  void* const data = allocator->Allocate(2048);
  EXPECT_EQ(allocator->AllocateIfRoom(512), nullptr);
  EXPECT_EQ(keeper.stats().reserved_bytes, 2048);
  allocator->Free(data, 2048);
}

TEST_F(StreamOrderedAllocatorTest, OutOfMemoryErrorNamesDeviceAndSizes) {
  const auto allocator = Make();
  driver_.set_memory_limit(4096);
  void* const data = allocator->Allocate(2048);
  EXPECT_DEATH(allocator->Allocate(3000),
               "cuda:0 has 2.* in tensors and cannot allocate another 3");
  allocator->Free(data, 2048);
}

// This is not reported as a lack of memory; the GPU's error is kept.
TEST_F(StreamOrderedAllocatorTest, FailedGpuGivesAddressesWithoutMemory) {
  const auto allocator = Make();
  allocator->set_poison(true);
  void* const before = allocator->Allocate(512);
  driver_.Break("an illegal memory access");
  void* const data = allocator->Allocate(1024);
  EXPECT_EQ(kept_.message(), "Allocate: an illegal memory access");
  EXPECT_FALSE(driver_.Fill(data, 0, 1024, stream_).ok());
  EXPECT_EQ(allocator->AllocateIfRoom(512), nullptr);
  EXPECT_EQ(allocator->MakeRoom(512).status().message(), "Allocate: an illegal memory access");
  allocator->Free(data, 1024);
  allocator->Free(before, 512);
  allocator->ReleaseCache();
  EXPECT_EQ(allocator->stats().allocated_bytes, 0);
}

TEST_F(StreamOrderedAllocatorTest, OtherErrorsNameTheCall) {
  const auto allocator = Make();
  driver_.FailNext("Allocate");
  EXPECT_DEATH(allocator->Allocate(3000), "cuda:0: Allocate: injected failure");
}

TEST_F(StreamOrderedAllocatorTest, PoisonFillsNewBlocks) {
  const auto allocator = Make();
  allocator->set_poison(true);
  const auto* const data = static_cast<unsigned char*>(allocator->Allocate(8));
  ASSERT_TRUE(driver_.Synchronize(stream_).ok());
  EXPECT_EQ(data[7], 0xff);
  allocator->Free(const_cast<unsigned char*>(data), 8);
}

// Regardless of the number of blocks that wait for the stream.
TEST_F(StreamOrderedAllocatorTest, OnlyFirstUseOfStreamIsQueried) {
  constexpr int kBlocks = 100;
  const auto allocator = Make();
  bool ready = false;
  ASSERT_TRUE(driver_
                  .Enqueue(
                      other_, [] {}, [&ready] { return ready; })
                  .ok());
  for (int i = 0; i < kBlocks; ++i) {
    void* const data = allocator->Allocate(512);
    AddUse(allocator.get(), {data}, other_);
    allocator->Free(data, 512);
  }
  EXPECT_LE(driver_.num_calls("Done"), 2 * kBlocks);
  EXPECT_EQ(driver_.num_calls("Free"), 0);
  ready = true;
  driver_.RunAll();
  allocator->Free(allocator->Allocate(512), 512);
  EXPECT_EQ(driver_.num_calls("Free"), kBlocks + 1);
  driver_.RunAll();
  EXPECT_EQ(driver_.live_bytes(), 0);
}

// A block that two streams use is freed when both are done with it.
TEST_F(StreamOrderedAllocatorTest, UsesAndBlocksAreManyToMany) {
  const auto allocator = Make();
  const Stream third = *driver_.CreateStream({});
  bool ready = false;
  ASSERT_TRUE(driver_
                  .Enqueue(
                      third, [] {}, [&ready] { return ready; })
                  .ok());
  void* const a = allocator->Allocate(512);
  void* const b = allocator->Allocate(512);
  AddUse(allocator.get(), {a, b}, other_);
  AddUse(allocator.get(), {b}, third);
  allocator->Free(a, 512);
  allocator->Free(b, 512);
  driver_.RunAll();
  void* const c = allocator->Allocate(512);
  EXPECT_EQ(driver_.num_calls("Free"), 1) << "a";
  ready = true;
  driver_.RunAll();
  allocator->Free(c, 512);
  allocator->Free(allocator->Allocate(512), 512);
  driver_.RunAll();
  EXPECT_EQ(driver_.live_bytes(), 0);
}

TEST_F(StreamOrderedAllocatorTest, NothingLeaks) {
  const int before = driver_.num_live_handles();
  {
    const auto allocator = Make();
    void* const data = allocator->Allocate(512);
    for (int i = 0; i < 10; ++i) AddUse(allocator.get(), {data}, other_);
    allocator->Free(data, 512);
  }
  driver_.RunAll();
  EXPECT_EQ(driver_.num_live_handles(), before);
  EXPECT_EQ(driver_.live_bytes(), 0);
}

// Two streams use blocks that are freed at once. Regardless of the streams' speeds, no work uses
// freed memory.
TEST(StreamOrderedAllocatorPropertyTest, NoOrderOfStreamsTouchesFreedMemory) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    FakeDriver driver(seed);
    RandomStream random(seed, 1, 0, RandomPurpose::kTest);
    const Stream own = *driver.CreateStream({}), other = *driver.CreateStream({});
    {
      StreamOrderedAllocator allocator(&driver, {}, *driver.CreatePool({}), own, "cuda:0", nullptr);
      for (int i = 0; i < 20; ++i) {
        void* const data = allocator.Allocate(512);
        ASSERT_TRUE(driver.Fill(data, 1, 512, own).ok());
        if (random.NextBelow(2) == 0) {
          const Event ready = *driver.CreateEvent({});
          const auto done = std::make_shared<const OwnedEvent>(&driver, *driver.CreateEvent({}));
          ASSERT_TRUE(driver.Record(ready, own).ok());
          ASSERT_TRUE(driver.Wait(other, ready).ok());
          driver.DestroyEvent(ready);
          ASSERT_TRUE(driver.Fill(data, 2, 512, other).ok());
          ASSERT_TRUE(driver.Record(done->get(), other).ok());
          allocator.AddUse({data}, other, done);
        }
        allocator.Free(data, 512);
      }
    }
    driver.RunAll();
    EXPECT_THAT(driver.violations(), IsEmpty()) << "seed " << seed;
    EXPECT_EQ(driver.live_bytes(), 0) << "seed " << seed;
  }
}

// All threads need memory that the others keep: each gets it, without deadlock.
TEST(StreamOrderedAllocatorPropertyTest, ThreadsShareGpuThatOneCouldFill) {
  constexpr int kThreads = 3;
  constexpr int64_t kBlock = 4096;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    FakeDriver driver(seed);
    driver.set_memory_limit(kThreads * 3 * kBlock);
    const auto devices = *CreateVirtualCudaDevices(&driver, kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_TRUE(devices[i]->BindThread().ok());
        RandomStream random(seed, i, 0, RandomPurpose::kTest);
        Tensor kept;
        for (int round = 0; round < 20; ++round) {
          const int64_t blocks = 1 + static_cast<int64_t>(random.NextBelow(2));
          Tensor t = Tensor::Zeros(devices[i], {blocks * kBlock / 4}, DType::kF32);
          if (random.NextBelow(2) == 0) kept = t.Slice(0, 1).Clone();
          if (random.NextBelow(3) == 0) {
            const Tensor borrowed = t.ViewOn(devices[(i + 1) % kThreads]);
            t = Tensor();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    driver.RunAll();
    EXPECT_THAT(driver.violations(), IsEmpty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dpipe::cuda
