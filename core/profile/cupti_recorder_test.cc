#include "core/profile/cupti_recorder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/tensor/device_work.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Fake of CUPTI. Each "launch" records a call with the ids that are pushed, and a kernel that runs
// for 10 ns. Records are delivered when they are flushed, one kind per slot of a buffer.
struct FakeCupti {
  union Slot {
    CUpti_Activity any;
    CUpti_ActivityKernel10 kernel;
    CUpti_ActivityMemcpy6 copy;
    CUpti_ActivityExternalCorrelation call;
  };

  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::vector<uint64_t> ids;  // pushed
  std::vector<CUpti_ActivityKind> enabled;
  std::vector<Slot> records;
  uint32_t calls = 0;
  uint64_t now = 1000;
  CUptiResult enable_result = CUPTI_SUCCESS;

  uint32_t Call() {
    ++calls;
    if (!ids.empty()) {
      Slot slot = {};
      slot.call.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      slot.call.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
      slot.call.externalId = ids.back();
      slot.call.correlationId = calls;
      records.push_back(slot);
    }
    return calls;
  }
  void Launch(const char* name) {
    Slot slot = {};
    slot.kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    slot.kernel.name = name;
    slot.kernel.correlationId = Call();
    slot.kernel.start = now;
    slot.kernel.end = now += 10;
    records.push_back(slot);
  }
  void Copy() {
    Slot slot = {};
    slot.copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    slot.copy.correlationId = Call();
    slot.copy.start = now;
    slot.copy.end = now += 5;
    records.push_back(slot);
  }
};

FakeCupti* fake = nullptr;

CuptiApi Api() {
  CuptiApi api;
  api.cuptiGetResultString = [](CUptiResult, const char** text) {
    *text = "not allowed";
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityRegisterCallbacks = [](CUpti_BuffersCallbackRequestFunc request,
                                          CUpti_BuffersCallbackCompleteFunc complete) {
    fake->request = request;
    fake->complete = complete;
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityEnable = [](CUpti_ActivityKind kind) {
    fake->enabled.push_back(kind);
    return fake->enable_result;
  };
  api.cuptiActivityDisable = [](CUpti_ActivityKind kind) {
    auto& enabled = fake->enabled;
    enabled.erase(std::remove(enabled.begin(), enabled.end(), kind), enabled.end());
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityFlushAll = [](uint32_t) {
    uint8_t* buffer = nullptr;
    size_t size = 0, max_records = 0;
    fake->request(&buffer, &size, &max_records);
    const size_t bytes = fake->records.size() * sizeof(FakeCupti::Slot);
    EXPECT_LE(bytes, size);
    std::memcpy(buffer, fake->records.data(), bytes);
    fake->records.clear();
    fake->complete(nullptr, 0, buffer, size, bytes);
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityGetNextRecord = [](uint8_t* buffer, size_t bytes, CUpti_Activity** record) {
    auto* const first = reinterpret_cast<CUpti_Activity*>(buffer);
    *record = *record == nullptr
                  ? first
                  : reinterpret_cast<CUpti_Activity*>(reinterpret_cast<uint8_t*>(*record) +
                                                      sizeof(FakeCupti::Slot));
    return reinterpret_cast<uint8_t*>(*record) < buffer + bytes ? CUPTI_SUCCESS
                                                                : CUPTI_ERROR_MAX_LIMIT_REACHED;
  };
  api.cuptiActivityGetNumDroppedRecords = [](CUcontext, uint32_t, size_t* dropped) {
    *dropped = 3;
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityPushExternalCorrelationId = [](CUpti_ExternalCorrelationKind, uint64_t id) {
    fake->ids.push_back(id);
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityPopExternalCorrelationId = [](CUpti_ExternalCorrelationKind, uint64_t* last) {
    *last = fake->ids.back();
    fake->ids.pop_back();
    return CUPTI_SUCCESS;
  };
  return api;
}

class CuptiRecorderTest : public ::testing::Test {
 protected:
  CuptiRecorderTest() {
    fake = &cupti_;
    ceilings_.set_flops_per_s(1e12);
    ceilings_.set_bytes_per_s(1e9);
  }
  ~CuptiRecorderTest() override { fake = nullptr; }

  FakeCupti cupti_;
  const CuptiApi api_ = Api();
  GpuCeilings ceilings_;
};

// Returns "operation/detail" for each activity.
std::vector<std::string> OperationsOf(const GpuRecording& recording) {
  std::vector<std::string> names;
  for (const GpuActivity& activity : recording.activities) {
    const bool has = activity.operation >= 0;
    const GpuOperation none, &of = has ? recording.operations[activity.operation] : none;
    names.push_back(of.name + "/" + of.detail);
  }
  return names;
}

TEST_F(CuptiRecorderTest, AssignsKernelsToEnqueuingOperation) {
  auto recorder = internal::StartCuptiRecorder(api_, ceilings_);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  {
    const WorkScope convolution("conv2d");
    {
      const WorkScope layout("layout of weights");
      cupti_.Launch("_Z1fv");
    }
    const WorkScope sizes([] { return std::string("8 x 8"); });
    cupti_.Launch("conv");
    cupti_.Copy();
  }
  cupti_.Launch("alone");
  auto recording = (*recorder)->Stop();
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_THAT(OperationsOf(*recording),
              ElementsAre("layout of weights/", "conv2d/8 x 8", "conv2d/8 x 8", "/"));
  EXPECT_EQ(recording->activities[0].name, "f()") << "names are demangled";
  EXPECT_EQ(recording->activities[1].begin_ns, 1010);
  EXPECT_EQ(recording->activities[1].end_ns, 1020);
  EXPECT_EQ(recording->activities[2].kind, GpuActivity::Kind::kCopy);
  EXPECT_EQ(recording->dropped, 3);
  EXPECT_TRUE(cupti_.enabled.empty());
  EXPECT_TRUE(cupti_.ids.empty());
}

TEST_F(CuptiRecorderTest, CountsForInnermostWorkAndBoundsEachCall) {
  auto recorder = internal::StartCuptiRecorder(api_, ceilings_);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  for (int i = 0; i < 2; ++i) {
    const WorkScope outer("linear");
    CountWork(0, 100);
    const WorkScope inner([] { return std::string("product"); });
    CountWork(/*flops=*/5e6, /*bytes=*/i == 0 ? 1e3 : 1e4);  // 5 us; 1 us, then 10 us
  }
  CountWork(1, 1);  // outside any operation
  auto recording = (*recorder)->Stop();
  ASSERT_TRUE(recording.ok()) << recording.status();
  ASSERT_EQ(recording->operations.size(), 2);
  EXPECT_EQ(recording->operations[0].bytes, 200);
  EXPECT_EQ(recording->operations[1].name, "linear");
  EXPECT_EQ(recording->operations[1].calls, 2);
  EXPECT_EQ(recording->operations[1].flops, 1e7);
  EXPECT_DOUBLE_EQ(recording->operations[1].bound_ns, 5'000 + 10'000);
}

TEST_F(CuptiRecorderTest, ReportsWhyCuptiDoesNotRecord) {
  cupti_.enable_result = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  const auto recorder = internal::StartCuptiRecorder(api_, ceilings_);
  EXPECT_EQ(recorder.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(recorder.status().message()), HasSubstr("not allowed"));
  EXPECT_EQ(ObserverOfWork(), nullptr);
}

TEST_F(CuptiRecorderTest, RemovesObserverAtStop) {
  for (int i = 0; i < 2; ++i) {
    auto recorder = internal::StartCuptiRecorder(api_, ceilings_);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    EXPECT_NE(ObserverOfWork(), nullptr);
    ASSERT_TRUE((*recorder)->Stop().ok());
    EXPECT_EQ(ObserverOfWork(), nullptr);
  }
}

}  // namespace
}  // namespace dpipe
