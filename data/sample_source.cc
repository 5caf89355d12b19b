#include "data/sample_source.h"

#include <atomic>
#include <thread>

namespace dpipe {

std::vector<absl::StatusOr<ImageSize>> ReadImageSizes(const SampleSource& source) {
  constexpr int kThreads = 8;
  std::vector<absl::StatusOr<ImageSize>> sizes(source.size());
  std::atomic<size_t> next{0};
  const auto read = [&] {
    for (size_t i = next++; i < sizes.size(); i = next++) {
      sizes[i] = source.LoadImageSize(static_cast<int32_t>(i));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(read);
  for (std::thread& thread : threads) thread.join();
  return sizes;
}

}  // namespace dpipe
