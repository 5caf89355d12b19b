#include "data/sample_source.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dpipe {

std::string RelativePath(const SampleSource& source, int32_t index) {
  const std::string path = source.image_path(index);
  const std::string& name = source.name();
  const std::string parent = name.substr(0, name.rfind('/') + 1);
  absl::string_view relative = path;
  if (!absl::ConsumePrefix(&relative, absl::StrCat(name, "/"))) {
    absl::ConsumePrefix(&relative, parent);
  }
  return std::string(relative);
}

void ReadInParallel(int64_t count, const std::function<void(int64_t i)>& read) {
  constexpr int64_t kThreads = 8;
  std::atomic<int64_t> next{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < std::min(kThreads, count); ++t) {
    threads.emplace_back([&] {
      for (int64_t i = next++; i < count; i = next++) read(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dpipe
