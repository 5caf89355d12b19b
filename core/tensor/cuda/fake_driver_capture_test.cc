#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FakeDriverCaptureTest : public ::testing::Test {
 protected:
  float* Floats(int count) {
    return static_cast<float*>(*driver_.Allocate(pool_, count * 4, stream_));
  }
  // Ends the capture of `stream_`, and returns why it has failed.
  std::string Reason() {
    const auto graph = driver_.EndCapture(stream_);
    EXPECT_FALSE(graph.ok());
    EXPECT_TRUE(driver_.BeginCapture(stream_).ok()) << "the stream is still captured";
    EXPECT_TRUE(driver_.EndCapture(stream_).ok());
    return std::string(graph.status().message());
  }

  FakeDriver driver_;
  const Stream stream_ = *driver_.CreateStream({}), other_ = *driver_.CreateStream({});
  const Pool pool_ = *driver_.CreatePool({});
  const Event event_ = *driver_.CreateEvent({}), second_ = *driver_.CreateEvent({});
};

TEST_F(FakeDriverCaptureTest, RunsAtEachLaunch) {
  float *sum = Floats(1), *term = Floats(1);
  sum[0] = 1;
  term[0] = 10;
  ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
  ASSERT_TRUE(driver_.AddUp({{sum, {term}, 1, true}}, stream_).ok());
  driver_.EnqueueKernel(
      stream_, [sum] { sum[0] *= 2; }, &sum, sizeof(sum));
  const Graph graph = *driver_.EndCapture(stream_);
  driver_.RunAll();
  EXPECT_EQ(sum[0], 1);
  ASSERT_TRUE(driver_.Launch(graph, stream_).ok());
  ASSERT_TRUE(driver_.Synchronize(stream_).ok());
  EXPECT_EQ(sum[0], 22);
  term[0] = 0;  // launches read the current value
  ASSERT_TRUE(driver_.Launch(graph, other_).ok());
  ASSERT_TRUE(driver_.Launch(graph, other_).ok());
  driver_.RunAll();
  EXPECT_EQ(sum[0], 88);
  driver_.DestroyGraph(graph);
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

// A stream forks off and joins again. Its work and the origin's run in any relative order, and work
// after the launch waits for both.
TEST_F(FakeDriverCaptureTest, ForksRunInEveryOrderAndAreJoined) {
  std::set<std::string> orders;
  std::string order;
  const auto say = [&](const char* what) { return [&order, what] { order += what; }; };
  ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
  ASSERT_TRUE(driver_.Enqueue(stream_, say("a")).ok());
  ASSERT_TRUE(driver_.Record(event_, stream_).ok());
  ASSERT_TRUE(driver_.Wait(other_, event_).ok());
  ASSERT_TRUE(driver_.Enqueue(other_, say("b")).ok());
  ASSERT_TRUE(driver_.Enqueue(stream_, say("c")).ok());
  ASSERT_TRUE(driver_.Record(second_, other_).ok());
  ASSERT_TRUE(driver_.Wait(stream_, second_).ok());
  ASSERT_TRUE(driver_.Enqueue(stream_, say("d")).ok());
  const Graph graph = *driver_.EndCapture(stream_);
  for (int i = 0; i < 50; ++i) {
    order.clear();
    ASSERT_TRUE(driver_.Launch(graph, stream_).ok());
    ASSERT_TRUE(driver_.Enqueue(stream_, say("e")).ok());
    driver_.RunAll();
    orders.insert(order);
  }
  EXPECT_THAT(orders, ElementsAre("abcde", "acbde"));
  driver_.DestroyGraph(graph);
}

TEST_F(FakeDriverCaptureTest, ForksMustBeJoined) {
  ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
  ASSERT_TRUE(driver_.Record(event_, stream_).ok());
  ASSERT_TRUE(driver_.Wait(other_, event_).ok());
  ASSERT_TRUE(driver_.Enqueue(other_, [] {}).ok());
  EXPECT_THAT(Reason(), HasSubstr("does not wait for work 0 of 1"));
}

TEST_F(FakeDriverCaptureTest, ForbiddenCallsSpoilCapture) {
  Event before = *driver_.CreateEvent({});
  ASSERT_TRUE(driver_.Record(before, stream_).ok());
  const auto expect = [&](const std::string& reason, const std::function<absl::Status()>& call) {
    ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
    EXPECT_FALSE(call().ok()) << reason;
    EXPECT_THAT(Reason(), HasSubstr(reason));
  };
  expect("Synchronize of a stream", [&] { return driver_.Synchronize(stream_); });
  expect("Synchronize during", [&] { return driver_.Synchronize(other_); });
  expect("Done during", [&] { return driver_.Done(before).status(); });
  expect("Done of an event in", [&] {
    EXPECT_TRUE(driver_.Record(event_, stream_).ok());
    return driver_.Done(event_).status();
  });
  expect("Allocate of a stream", [&] { return driver_.Allocate(pool_, 8, stream_).status(); });
  expect("AllocatePinned during", [&] { return driver_.AllocatePinned({}, 8).status(); });
  expect("Trim during", [&] { return driver_.Trim(pool_); });
  expect("from outside the capture", [&] { return driver_.Wait(stream_, before); });
  expect("BeginCapture of", [&] { return driver_.BeginCapture(stream_); });
  expect("cannot be captured", [&] {
    return driver_.Enqueue(
        stream_, [] {}, [] { return true; });
  });
  float* const data = Floats(2);
  expect("Fill of memory that is not", [&] { return driver_.Fill(nullptr, 0, 4, stream_); });
  expect("Copy of memory that is not", [&] { return driver_.Copy(data, data + 1, 8, stream_); });
  expect("injected failure", [&] {
    driver_.FailNext("Fill");
    return driver_.Fill(data, 0, 8, stream_);
  });
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

TEST_F(FakeDriverCaptureTest, OtherThreadsAndStreamsContinue) {
  ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
  std::thread([&] {
    EXPECT_TRUE(driver_.Enqueue(other_, [] {}).ok());
    EXPECT_TRUE(driver_.Synchronize(other_).ok());
    EXPECT_TRUE(driver_.Allocate(pool_, 8, other_).ok());
  }).join();
  const auto graph = driver_.EndCapture(stream_);
  ASSERT_TRUE(graph.ok()) << graph.status();
  driver_.DestroyGraph(*graph);
}

TEST_F(FakeDriverCaptureTest, CannotWaitForEventOfEndedCapture) {
  ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
  ASSERT_TRUE(driver_.Record(event_, stream_).ok());
  ASSERT_TRUE(driver_.EndCapture(stream_).ok());
  EXPECT_FALSE(driver_.Wait(other_, event_).ok());
  ASSERT_TRUE(driver_.Record(event_, stream_).ok());
  EXPECT_TRUE(driver_.Wait(other_, event_).ok());
}

TEST_F(FakeDriverCaptureTest, MemoryOfGraphMustStayAllocated) {
  float *sum = Floats(1), *term = Floats(1);
  ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
  driver_.EnqueueKernel(
      stream_, [sum, term] { sum[0] += term[0]; }, std::vector<float*>{sum, term}.data(),
      2 * sizeof(sum));
  const Graph graph = *driver_.EndCapture(stream_);
  ASSERT_TRUE(driver_.Launch(graph, stream_).ok());
  driver_.RunAll();
  EXPECT_THAT(driver_.violations(), IsEmpty());
  ASSERT_TRUE(driver_.Free(term, stream_).ok());
  ASSERT_TRUE(driver_.Launch(graph, stream_).ok());
  driver_.RunAll();
  EXPECT_THAT(driver_.violations(), ElementsAre("a kernel uses freed memory"));
}

TEST_F(FakeDriverCaptureTest, GraphMustOutliveItsLaunches) {
  ASSERT_TRUE(driver_.BeginCapture(stream_).ok());
  ASSERT_TRUE(driver_.Enqueue(stream_, [] {}).ok());
  const Graph graph = *driver_.EndCapture(stream_);
  ASSERT_TRUE(driver_.Launch(graph, stream_).ok());
  driver_.DestroyGraph(graph);
  EXPECT_THAT(driver_.violations(), ElementsAre(HasSubstr("while a launch")));
}

}  // namespace
}  // namespace dpipe::cuda
