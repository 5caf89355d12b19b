#include "core/tensor/device_worker.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(DeviceWorkerTest, JobsRunOnOneThreadEach) {
  const std::vector<std::shared_ptr<Device>> devices = {Device::Cpu(), Device::Cpu()};
  const auto workers = StartWorkers(devices);
  const std::vector<DeviceWorker*> pointers = {workers[0].get(), workers[1].get()};
  std::thread::id first[2], second[2];
  auto remember = [](std::thread::id* ids) {
    return [ids](int i) {
      ids[i] = std::this_thread::get_id();
      return absl::OkStatus();
    };
  };
  for (const auto& status : RunOnAll(pointers, remember(first))) EXPECT_TRUE(status.ok());
  for (const auto& status : RunOnAll(pointers, remember(second))) EXPECT_TRUE(status.ok());
  EXPECT_EQ(first[0], second[0]);
  EXPECT_EQ(first[1], second[1]);
  EXPECT_NE(first[0], first[1]);
}

TEST(DeviceWorkerTest, StatusesAndExceptionsComeBack) {
  DeviceWorker worker(Device::Cpu());
  worker.Start([] { return absl::NotFoundError("no such thing"); });
  EXPECT_EQ(worker.Wait().code(), absl::StatusCode::kNotFound);
  worker.Start([]() -> absl::Status { throw std::runtime_error("thrown inside"); });
  const absl::Status status = worker.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("thrown inside"), std::string::npos);
  worker.Start([] { return absl::OkStatus(); });
  EXPECT_TRUE(worker.Wait().ok());
}

}  // namespace
}  // namespace dpipe
