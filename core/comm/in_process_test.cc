#include "core/comm/in_process.h"

#include <thread>

#include "core/comm/conformance.h"

namespace dpipe {
namespace {

Transport InProcess() {
  Transport transport;
  transport.name = "in_process";
  transport.run = [](int size, absl::Duration deadline, const Transport::Body& body) {
    InProcessOptions options;
    options.deadline = deadline;
    auto communicators = CreateInProcessCommunicators(size, options);
    std::vector<absl::Status> statuses(size);
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(*communicators[i]); });
    }
    for (auto& thread : threads) thread.join();
    return statuses;
  };
  return transport;
}

INSTANTIATE_TEST_SUITE_P(Transports, ConformanceTest, ::testing::Values(InProcess()),
                         TransportName);

}  // namespace
}  // namespace dpipe
