// Tables of a library's functions, bound when the library is first needed: api.ncclSend is what
// ncclSend would be if the library were linked. Tests fill tables with functions of their own.
//
//   #define DPIPE_FOO_FUNCTIONS(X) X(fooCreate) X(fooRun)
//   struct FooApi { DPIPE_FOO_FUNCTIONS(DPIPE_TABLE_MEMBER) };
//   absl::StatusOr<const FooApi*> LoadFoo();   // in the .cc: DPIPE_TABLE_BIND, LoadTable
#ifndef DPIPE_CORE_CUDA_FUNCTION_TABLE_H_
#define DPIPE_CORE_CUDA_FUNCTION_TABLE_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/host/shared_library.h"
#include "core/base/status.h"

// CUDA's headers rename functions by macros (cuMemAlloc to cuMemAlloc_v2): names are expanded
// before they become members and strings.
#define DPIPE_TABLE_STRING_INNER_(name) #name
#define DPIPE_TABLE_STRING_(name) DPIPE_TABLE_STRING_INNER_(name)

#define DPIPE_TABLE_MEMBER(name) decltype(&::name) name = nullptr;

// In a function that has `library` (SharedLibrary) and `table`.
#define DPIPE_TABLE_BIND(name) \
  DPIPE_RETURN_IF_ERROR(library.Bind(DPIPE_TABLE_STRING_(name), &table.name));

namespace dpipe {

// The toolkit's usual folder of libraries, which the loader need not know.
inline constexpr char kCudaLibraries[] = "/usr/local/cuda/lib64/";

// `file` as the loader finds it, else in that folder.
inline std::vector<std::string> CudaLibraryNames(const std::string& file) {
  return {file, kCudaLibraries + file};
}

// Opens the library and fills a table by `bind`.
template <typename Table>
absl::StatusOr<Table> LoadTable(absl::Span<const std::string> names, const std::string& needed_for,
                                absl::Status (*bind)(const SharedLibrary&, Table&)) {
  DPIPE_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(names, needed_for));
  Table table;
  DPIPE_RETURN_IF_ERROR(bind(library, table));
  return table;
}

// A pointer into what a function-local static holds.
template <typename Table>
absl::StatusOr<const Table*> PointerOrStatus(const absl::StatusOr<Table>& loaded) {
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_FUNCTION_TABLE_H_
