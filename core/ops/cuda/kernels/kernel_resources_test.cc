// The resources of a multiprocessor that kernels need, as reported by the compiler.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "gmock/gmock.h"

namespace dpipe::ops::cuda {
namespace {

struct KernelResources {
  std::string name;
  int frame_bytes = 0;  // of per-thread local memory
  int spilled_bytes = 0;
  int registers = 0;
};

std::string Demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

int NumberIn(const std::string& line, const std::string& pattern) {
  std::smatch match;
  int number = -1;
  if (std::regex_search(line, match, std::regex(pattern))) {
    EXPECT_TRUE(absl::SimpleAtoi(match[1].str(), &number)) << line;
  }
  return number;
}

// Returns the resources of all kernels, for each architecture that they are compiled for.
std::vector<KernelResources> AllKernels() {
  std::vector<KernelResources> kernels;
  for (const auto& entry :
       std::filesystem::directory_iterator("core/ops/cuda/kernels/_nvcc/kernels_device_code")) {
    const std::string log = *ReadFile(entry.path().string());
    for (const absl::string_view text : absl::StrSplit(log, '\n')) {
      const std::string line(text);
      std::smatch match;
      if (std::regex_search(line, match, std::regex("Compiling entry function '(\\w+)'"))) {
        kernels.push_back({Demangled(match[1])});
      }
      if (kernels.empty()) continue;
      KernelResources& last = kernels.back();
      if (absl::StrContains(line, "bytes stack frame")) {
        // First the kernel, then the functions that it calls.
        last.frame_bytes = std::max(last.frame_bytes, NumberIn(line, "(\\d+) bytes stack frame"));
        last.spilled_bytes =
            std::max(last.spilled_bytes, NumberIn(line, "(\\d+) bytes spill stores"));
      } else if (absl::StrContains(line, "Used ")) {
        last.registers = NumberIn(line, "Used (\\d+) registers");
      }
    }
  }
  return kernels;
}

// An array is stored in memory if its index is known only at run time. Reading it there takes
// longer than everything else that a kernel does with it. (Sines and cosines of large angles need
// one.)
TEST(KernelResourcesTest, ArraysStayInRegisters) {
  const std::vector<KernelResources> kernels = AllKernels();
  EXPECT_GT(kernels.size(), 100);
  for (const KernelResources& kernel : kernels) {
    EXPECT_GT(kernel.registers, 0) << kernel.name;
    EXPECT_LE(kernel.spilled_bytes, 16) << kernel.name;
    if (absl::StrContains(kernel.name, "Sinusoids")) continue;
    // Frames are multiples of 8 bytes.
    EXPECT_LE(kernel.frame_bytes, (kernel.spilled_bytes + 7) / 8 * 8) << kernel.name;
  }
}

// Blocks have 256 threads, and a multiprocessor has 65,536 registers: with up to 128 per thread,
// two blocks fit at once and hide each other's latency.
TEST(KernelResourcesTest, TwoBlocksFitAMultiprocessor) {
  for (const KernelResources& kernel : AllKernels()) {
    EXPECT_LE(kernel.registers, 128) << kernel.name;
  }
}

}  // namespace
}  // namespace dpipe::ops::cuda
