"""The pytest plugin, in runs of pytest as users have them."""

import pytest

pytest_plugins = ["pytester"]

SYNC = """
    import threading
    from pathlib import Path

    import windsprite
    import windsprite.sync

    def test_the_server(windsprite_server):
        assert windsprite_server.host == "127.0.0.1"
        assert str(windsprite_server.port) in windsprite_server.connection_string
        assert windsprite_server.data_dir.is_dir()
        with windsprite.sync.connect(windsprite_server.connection_string) as client:
            client.create_stream("orders")

    def test_another_one_is_empty(windsprite_sync_client):
        assert windsprite_sync_client.get_streams() == ()

    def test_both_clients_are_on_the_server_of_the_test(windsprite_server, windsprite_sync_client):
        assert windsprite_sync_client.server.endswith(f":{windsprite_server.port}")

    def test_nothing_is_left_of_the_others():
        names = {thread.name for thread in threading.enumerate()}
        assert not {name for name in names if name.startswith("windsprite")}
"""

ASYNC = """
    import pytest
    import windsprite

    MARKS

    @pytest.fixture
    async def topic(windsprite_client):
        await windsprite_client.create_stream("orders")
        await windsprite_client.create_topic("orders", "events")
        return "events"

    async def test_messages(windsprite_client, topic):
        assert isinstance(windsprite_client, windsprite.Client)
        await windsprite_client.send("orders", topic, [b"one"])
        (message,) = await windsprite_client.poll("orders", topic)
        assert message.payload == b"one"

    async def test_a_fresh_server(windsprite_client, windsprite_server):
        assert await windsprite_client.get_streams() == ()
        async with windsprite.connect(windsprite_server.connection_string) as another:
            await another.create_stream("orders")
        assert len(await windsprite_client.get_streams()) == 1

    def test_without_a_loop(windsprite_sync_client):
        windsprite_sync_client.ping()
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    # pytest-asyncio warns of an option that is not set, which is no matter of ours.
    warnings = ("-W", "error", "-W", "ignore::pytest.PytestDeprecationWarning")
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *warnings, *options)


def test_tests_that_block(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SYNC)
    # Neither plugin for asynchronous tests is needed.
    run(pytester, "-p", "no:asyncio", "-p", "no:anyio").assert_outcomes(passed=4)


def test_asyncio_in_auto_mode(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASYNC.replace("MARKS", ""))
    run(pytester, "-o", "asyncio_mode=auto").assert_outcomes(passed=3)


def test_asyncio_in_strict_mode_and_with_a_loop_for_several_tests(
    pytester: pytest.Pytester,
) -> None:
    strict = ASYNC.replace("@pytest.fixture", "@pytest_asyncio.fixture").replace(
        "MARKS", "import pytest_asyncio\n    pytestmark = pytest.mark.asyncio"
    )
    strict = strict.replace("    def test_without", "    @pytest.mark.skip\n    def test_without")
    module = strict.replace("pytest_asyncio.fixture", 'pytest_asyncio.fixture(loop_scope="module")')
    module = module.replace("mark.asyncio", 'mark.asyncio(loop_scope="module")')
    pytester.makepyfile(test_strict=strict, test_module=module)
    run(pytester, "-o", "asyncio_mode=strict").assert_outcomes(passed=4, skipped=2)


@pytest.mark.parametrize("options", [[], ["-p", "no:asyncio"]], ids=["beside asyncio", "alone"])
def test_anyio(pytester: pytest.Pytester, options: list[str]) -> None:
    marks = "pytestmark = pytest.mark.anyio\n"
    marks += "    @pytest.fixture(params=['asyncio', ('asyncio', {'debug': True})])\n"
    marks += "    def anyio_backend(request):\n        return request.param"
    pytester.makepyfile(ASYNC.replace("MARKS", marks))
    run(pytester, *options).assert_outcomes(passed=5)


def test_a_test_of_two_event_loops_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_marked_with_anyio(windsprite_client):
            await windsprite_client.ping()

        async def test_with_a_backend_of_anyio(windsprite_client, anyio_backend):
            await windsprite_client.ping()
        """
    )
    result = run(pytester, "-o", "asyncio_mode=auto")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*one of anyio, but pytest-asyncio runs it*"])


def test_settings(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        windsprite_settings =
            root.username = ada
            root.password = of the file
        """
    )
    pytester.makepyfile(
        test_all="""
            def test_of_the_run(windsprite_server, windsprite_sync_client):
                assert "ada:of%20the%20line@" in windsprite_server.connection_string
                windsprite_sync_client.ping()
        """,
        test_module="""
            import pytest
            import windsprite

            @pytest.fixture(scope="module")
            def windsprite_settings():
                return {"tcp": {"backlog": 5}}

            def test_of_the_module(windsprite_server, windsprite_sync_client):
                assert "iggy:iggy@" in windsprite_server.connection_string
        """,
        test_one="""
            import pytest

            @pytest.fixture
            def windsprite_settings(windsprite_settings, tmp_path):
                return {**windsprite_settings, "root": {"username": "eve"}, "data_dir": tmp_path}

            def test_of_its_own(windsprite_server, tmp_path):
                assert "eve:" in windsprite_server.connection_string
                assert windsprite_server.data_dir == tmp_path
        """,
    )
    option = "--windsprite-setting=root.password=of the line"
    run(pytester, option).assert_outcomes(passed=3)


def test_mistakes_are_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_client="def test_without_any_plugin(windsprite_client): pass",
        test_server="""
            import pytest

            @pytest.fixture
            def windsprite_settings():
                return {"nonsense": 1}

            def test_on_a_server(windsprite_server):
                pass
        """,
    )
    result = run(pytester, "-p", "no:asyncio", "-p", "no:anyio")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*windsprite_client needs pytest-asyncio, or*", "*nonsense*"])


def test_who_does_not_use_it_does_not_notice_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def windsprite_server():
            return "my own"
        """
    )
    pytester.makepyfile(
        """
        import sys

        def test_nothing_was_imported():
            loaded = {name.partition(".")[0] for name in sys.modules}
            assert "windsprite_testing" in loaded
            assert not loaded & {"windsprite", "windsprite_server", "windsprite_protocol"}

        def test_fixtures_of_the_project_come_first(windsprite_server):
            assert windsprite_server == "my own"
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_a_missing_extra_says_how_to_install_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys\nsys.modules['structlog'] = None")
    pytester.makepyfile("def test(windsprite_server): pass")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        "*the fixture windsprite_server needs the package structlog: "
        "pip install 'windsprite[[]server]'"
    )
