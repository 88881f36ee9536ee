#include "tests/executor/kernels/harness.h"

#include <ATen/CPUGeneratorImpl.h>

#include <random>
#include <string_view>

#include "executor/aten_kernels/aten_kernels.h"
#include "executor/devices/device_choice.h"
#include "executor/runtime/allocator.h"
#include "planner/lower/engine.h"

namespace xt {
namespace {

std::mt19937_64& engine() {
  static std::mt19937_64 instance;
  return instance;
}

at::Generator& generator() {
  static at::Generator instance = at::make_generator<at::CPUGeneratorImpl>();
  return instance;
}

// A test sees the same numbers whichever tests ran before it.
class Reseed : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    engine().seed(20240607);
    generator().set_current_seed(7);
  }
};

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors, c10::Device place) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors)
    result.push_back(tensor.to(place, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  return result;
}

bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

Bytes declared_workspace(const Work& work, const Bindings& bindings) {
  std::vector<WorkspaceSpec> list;
  xt_run_workspaces(work, list);
  Bytes sum;
  for (const WorkspaceSpec& spec : list) {
    std::int64_t n = width(spec.dtype);
    for (const Extent& extent : spec.shape) n *= extent.value(bindings);
    sum += Bytes(n);
  }
  return sum;
}

// The kernels that are tested, whether what they allocate is declared, and where they run.
struct KernelsUnderTest {
  KernelTable table = cpu_kernels();
  bool declare_workspace = true;
  c10::Device place = c10::kCPU;
};

KernelsUnderTest& under_test() {
  static KernelsUnderTest instance;
  return instance;
}

// Nothing stays allocated, and the most that is at once is what is declared.
void call_and_measure(KernelFunction function, const KernelCall& call) {
  const Bytes before = memory_usage().of(Space::device).current;
  reset_peak();
  function(call);
  const SpaceUsage after = memory_usage().of(Space::device);
  EXPECT_EQ(after.current, before);
  if (!under_test().declare_workspace) return;
  EXPECT_EQ((after.peak - before).value, declared_workspace(call.work, call.bindings).value)
      << name(call.work.kernel);
}

}  // namespace

void run(const Call& call) {
  Work work;
  work.kernel = call.kernel;
  work.dtype = call.dtype;
  std::copy(call.extents.begin(), call.extents.end(), work.extents.begin());
  const KernelFunction function = under_test().table[static_cast<std::size_t>(call.kernel)];
  ASSERT_NE(function, nullptr);
  const c10::Device place = under_test().place;
  const std::vector<at::Tensor> first = copies(call.outputs, place),
                                second = copies(call.outputs, place),
                                inputs = copies(call.inputs, place);
  const std::int64_t documents = call.documents;
  call_and_measure(function,
                   {work, call.bindings, inputs, first, call.constants, call.step, 0, documents});
  call_and_measure(function,
                   {work, call.bindings, inputs, second, call.constants, call.step, 0, documents});
  for (std::size_t i = 0; i < first.size(); ++i) {
    call.outputs[i].copy_(second[i]);
    EXPECT_TRUE(equal_bits(first[i].cpu(), call.outputs[i]))
        << name(call.kernel) << " output " << i;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(equal_bits(inputs[i].cpu(), call.inputs[i])) << name(call.kernel) << " input " << i;
}

at::ScalarType scalar_type(DType dtype) {
  return dtype == DType::bf16 ? at::kBFloat16 : at::kFloat;
}

at::Tensor random(at::IntArrayRef shape, DType dtype) {
  return at::randn(shape, generator(), at::kFloat).to(scalar_type(dtype));
}

at::Tensor garbage(at::IntArrayRef shape, DType dtype) {
  return at::full(shape, std::nan(""), scalar_type(dtype));
}

std::int64_t pick(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(engine());
}

at::Tensor leaf(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).clone().requires_grad_(true);
}

void differentiate(const at::Tensor& y, const at::Tensor& dy) {
  (y * dy.to(at::kDouble).view(y.sizes())).sum().backward();
}

void expect_close(const at::Tensor& got, const at::Tensor& want, DType dtype) {
  const at::Tensor difference = got.to(at::kDouble).view(want.sizes()) - want.detach();
  const double error = difference.norm().item<double>();
  const double tolerance = dtype == DType::bf16 ? 2e-2 : 1e-5;
  EXPECT_LE(error, tolerance * want.norm().item<double>() + 1e-30);
}

}  // namespace xt

int main(int argc, char** argv) {
  xt::install_allocator();
  at::set_num_threads(1);
  testing::InitGoogleTest(&argc, argv);
  const std::string_view tested = argc > 1 ? argv[1] : "";
  if (tested == "aten_kernels") xt::under_test() = {xt::aten_kernels(), false, c10::kCPU};
  if (tested == "widened") xt::under_test().table = xt::cpu_kernels(xt::Bf16Products::widened);
  if (tested == "cuda") {
    const std::unique_ptr<xt::Device> gpu = xt::make_device(xt::DeviceChoice::cuda, 0, 1);
    xt::under_test() = {xt::aten_kernels(), false, gpu->place(xt::Space::device)};
  }
  testing::UnitTest::GetInstance()->listeners().Append(new xt::Reseed);
  return RUN_ALL_TESTS();
}
