"""DLPack capsules: who frees them, whose stream waits, which are refused."""

from fake_driver import with_producers


def test_capsules_are_consumed_once_and_released(fake_cuda):
    with_producers(
        fake_cuda,
        """
        large = np.resize(items, 300_000)  # more than a queue keeps for reuse
        for versioned in (True, False):
            array = gpuopt.asarray(large, device="cuda")
            x = Capsules(array, versioned)
            host = np.array(0)
            assert gpuopt.reduce(x, out=host) == large.sum()
            assert x.asked[0] == {"stream": 1, "max_version": (1, 0)}
            name = "used_dltensor_versioned" if versioned else "used_dltensor"
            assert f'"{name}"' in repr(x.capsules[0]), repr(x.capsules)
            used, gone = get("used"), weakref.ref(array)
            x.array = array = None
            assert gone() is None  # the deleter was called
            assert get("used") < used
        # consumed once
        array = gpuopt.asarray(items, device="cuda")
        class Again(Capsules):
            def __dlpack__(self, **options):
                self.capsules = self.capsules or [self.array.__dlpack__(**options)]
                return self.capsules[0]
        x = Again(array)
        gpuopt.reduce(x)
        caught(ValueError, lambda: gpuopt.reduce(x), "consumed")
        # never consumed: the capsule itself lets go
        capsule, gone = array.__dlpack__(), weakref.ref(array)
        del x, array
        assert gone() is not None
        del capsule
        assert gone() is None
        """,
    )


def test_capsules_order_streams(fake_cuda):
    with_producers(
        fake_cuda,
        """
        # the consumer's stream waits for ours
        array = gpuopt.asarray(items, device="cuda")
        forget()
        array.__dlpack__(stream=0x9900)
        assert story() == "wait 9900;", story()
        array = gpuopt.asarray(items, device="cuda")
        forget()
        for stream in (None, 1, -1):
            array.__dlpack__(stream=stream)
        array = None
        assert story() == "all 0;wait 1;", story()  # -1: the consumer orders its work itself
        # a consumer on a stream of its own may have uses in flight when it lets go
        for version in (None, (1, 0)):
            array = gpuopt.asarray(items, device="cuda")
            capsule, array = array.__dlpack__(stream=0x9900, max_version=version), None
            forget()
            del capsule
            assert story() == "all 0;wait 1;", story()
        fake.fake_cuda_fail(b"cuCtxRecordEvent", 900, 1)  # a stream is being captured
        capsule = gpuopt.asarray(items, device="cuda").__dlpack__(stream=0x9900)
        forget()
        del capsule
        assert story() == "idle 0;", story()
        """,
    )


def test_unfit_capsules_are_refused(fake_cuda):
    with_producers(
        fake_cuda,
        """
        # read-only, by the versioned protocol alone
        lent = gpuopt.asarray(Interface(np.array(0), read_only=True))
        caught(ValueError, lambda: gpuopt.reduce(Interface(items), out=Capsules(lent)), "read-only")
        caught(BufferError, lambda: lent.__dlpack__(), "read-only")
        array = gpuopt.asarray(items, device="cuda")
        caught(ValueError, lambda: array.__dlpack__(stream=0), "ambiguous")
        caught(BufferError, lambda: array.__dlpack__(copy=True), "get")
        caught(BufferError, lambda: array.__dlpack__(dl_device=(1, 0)), "get")
        class Odd:
            def __dlpack_device__(self):
                return 2, 0
            def __dlpack__(self, **options):
                return 7
        caught(TypeError, lambda: gpuopt.reduce(Odd()), "capsule")
        # a host's array is NumPy's business
        class Host:
            __dlpack__ = items.__dlpack__
            __dlpack_device__ = items.__dlpack_device__
            __array__ = items.__array__
        assert gpuopt.reduce(Host()) == total
        """,
    )
