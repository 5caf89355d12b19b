#include "core/runtime/interpreter/input_prefetcher.h"

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

// Samples are distinct numbers: step * 100 + sample.
class NumberedInputs : public InputProvider {
 public:
  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    {
      absl::MutexLock lock(&mutex_);
      ++calls_;
      const bool asker = std::this_thread::get_id() == asker_;
      if (!asker) ahead_.insert({input, step});
      if (!asker && input == "slow") mutex_.Await(absl::Condition(&released_));
      if (step == fails_at_ && (!asker || asker_fails_)) {
        return absl::DataLossError(asker ? "for who asks" : "ahead");
      }
      if (step == throws_at_) throw std::runtime_error(asker ? "for who asks" : "ahead");
    }
    std::vector<float> values;
    for (int i = samples.begin; i < samples.end; ++i) {
      values.push_back(static_cast<float>(100 * step + i));
    }
    return Tensor::FromHost<float>(device, {samples.size()}, values);
  }

  // Waits until a thread other than the caller has requested it.
  void AwaitAhead(const std::string& input, int64_t step) {
    absl::MutexLock lock(&mutex_);
    const auto asked = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return ahead_.count({input, step}) > 0;
    };
    mutex_.Await(absl::Condition(&asked));
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    released_ = true;
  }
  int calls() {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }

  int64_t fails_at_ = -1, throws_at_ = -1;
  bool asker_fails_ = false;

 private:
  const std::thread::id asker_ = std::this_thread::get_id();
  absl::Mutex mutex_;
  std::set<std::pair<std::string, int64_t>> ahead_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

class InputPrefetcherTest : public ::testing::Test {
 protected:
  // Loads an input and checks its numbers.
  void Expect(const std::string& input, int64_t step, SampleRange samples) {
    const auto loaded = prefetcher_->Load("unet", input, step, samples, device_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_EQ(loaded->num_elements(), samples.size());
    for (int i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(loaded->data<float>()[i], 100 * step + samples.begin + i);
    }
  }

  const std::shared_ptr<Device> device_ = Device::Cpu(), ahead_ = Device::Cpu();
  NumberedInputs inputs_;
  std::unique_ptr<InputPrefetcher> prefetcher_ =
      std::make_unique<InputPrefetcher>(&inputs_, ahead_);
};

TEST_F(InputPrefetcherTest, MakesRepeatedInputsOnce) {
  for (int64_t step = 0; step < 5; ++step) {
    for (const char* input : {"noise", "pixels"}) {
      Expect(input, step, {0, 3});
      Expect(input, step, {3, 8});
    }
    inputs_.AwaitAhead("pixels", step + 1);
  }
  prefetcher_ = nullptr;
  // Four per step, and perhaps four for the step after the last one, if it got that far.
  EXPECT_GE(inputs_.calls(), 5 * 4);
  EXPECT_LE(inputs_.calls(), 6 * 4);
}

TEST_F(InputPrefetcherTest, DoesNotWaitForQueuedInputs) {
  Expect("slow", 0, {0, 2});
  Expect("noise", 0, {0, 2});
  inputs_.AwaitAhead("slow", 1);
  Expect("noise", 1, {0, 2});  // queued after the slow one
  inputs_.Release();
  Expect("slow", 1, {0, 2});
}

TEST_F(InputPrefetcherTest, OtherSamplesAndStepsAreNotMixedUp) {
  Expect("noise", 3, {0, 4});
  inputs_.AwaitAhead("noise", 4);
  Expect("noise", 4, {0, 2});
  Expect("noise", 7, {0, 4});
  Expect("noise", 4, {0, 4});
  Expect("noise", 5, {2, 4});
}

TEST_F(InputPrefetcherTest, WrongGuessesAreDropped) {
  for (int64_t step = 0; step < 20; ++step) {
    // The same range never occurs twice.
    const int begin = static_cast<int>(step);
    Expect("noise", step, {begin, begin + 1});
    inputs_.AwaitAhead("noise", step + 1);
  }
  EXPECT_LE(ahead_->allocator().stats().allocated_bytes, 4 * 64) << "of a few steps at most";
}

TEST_F(InputPrefetcherTest, OnlyRequestedInputsFail) {
  inputs_.fails_at_ = 1;
  Expect("noise", 0, {0, 2});
  inputs_.AwaitAhead("noise", 1);
  Expect("noise", 1, {0, 2});  // a failed prefetch is retried
  inputs_.asker_fails_ = true;
  const auto loaded = prefetcher_->Load("unet", "noise", 1, {0, 2}, device_);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("for who asks"));
}

TEST_F(InputPrefetcherTest, ExceptionsReachTheCaller) {
  inputs_.throws_at_ = 1;
  Expect("noise", 0, {0, 2});
  inputs_.AwaitAhead("noise", 1);
  EXPECT_THROW(prefetcher_->Load("unet", "noise", 1, {0, 2}, device_).IgnoreError(),
               std::runtime_error);
}

TEST_F(InputPrefetcherTest, EndsWhileSomethingIsBeingMade) {
  Expect("slow", 0, {0, 2});
  inputs_.AwaitAhead("slow", 1);
  std::thread release([this] { inputs_.Release(); });
  prefetcher_ = nullptr;
  release.join();
}

}  // namespace
}  // namespace dpipe
