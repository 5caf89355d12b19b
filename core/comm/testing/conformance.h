// Tests that every transport must pass. Instantiate ConformanceTest with your transport:
//   INSTANTIATE_TEST_SUITE_P(Gloo, ConformanceTest, ::testing::Values(GlooTransport()),
//   TransportName);
#ifndef DPIPE_CORE_COMM_TESTING_CONFORMANCE_H_
#define DPIPE_CORE_COMM_TESTING_CONFORMANCE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "gtest/gtest.h"

namespace dpipe {

struct Transport {
  using Body = std::function<absl::Status(Communicator&)>;

  std::string name;
  // Connects `size` ranks whose waits have the given deadline and runs `body` on one thread per
  // rank. Destroys the communicators only when all bodies have returned. Returns the bodies'
  // statuses.
  std::function<std::vector<absl::Status>(int size, absl::Duration deadline, const Body& body)> run;
  // True if messages have no tags and shapes are not compared. Both ranks of a pair must then call
  // in the same order, as ranks that run one plan do. It is undefined which operation ends first.
  bool in_device_order = false;
};

class ConformanceTest : public ::testing::TestWithParam<Transport> {
 protected:
  std::vector<absl::Status> RunRanks(int size, const Transport::Body& body,
                                     absl::Duration deadline = absl::Seconds(120)) const {
    return GetParam().run(size, deadline, body);
  }
};

inline std::string TransportName(const ::testing::TestParamInfo<Transport>& info) {
  return info.param.name;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_TESTING_CONFORMANCE_H_
