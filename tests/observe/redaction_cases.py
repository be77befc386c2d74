"""The tables of redaction: texts and names whose values are hidden in full, and texts and names that are shown in full."""

from __future__ import annotations

_SECRET = """
    password PASSWORD db_password dbpassword dbPasswd passwd password2 userpassword_hash pass_word passwords pass db_pass smtpPass DB_PASS
    dbpass pwd db-pwd pw db_pw PW dbpw userPw passphrase pass_phrase passcode passkey
    token tokens access_token access_tokens accessToken refreshToken api_token authtoken APITOKEN JWTToken X-Amz-Security-Token token_value
    token_type_value token_count_token tokencounter_token csrf_token csrfmiddlewaretoken token_id per_user_token
    secret SECRET secrets client_secret clientsecret secret-key secret_key aws_secret_access_key secret_id
    api_key apikey APIKey x-api-key api_keys private_key privateKey privatekey private_keys access_key AWSAccessKey AccountKey SharedAccessKey
    signing_key encryption_key session_key Ocp-Apim-Subscription-Key principal.keys
    signature sig x_hub_signature X-Amz-Signature signature_value sig_value X-Hub-Signature-256
    dsn DATABASE_DSN sentry_dsn connection_string connectionString ConnectionString conn_str connstr
    cookie cookies Set-Cookie session_cookie session_id sessionId sessionid sid PHPSESSID_sid
    otp totp otp_code pin card_pin userPIN pin_code pin_hash PIN recovery_code recovery_codes verification_code cvv
    auth Authorization Proxy-Authorization authorisation bearer jwt credential credentials creds hmac csrf
"""
SECRET_NAMES = _SECRET.split()

_INNOCENT = """
    tokens_per_second token_count tokenCount token-count max_tokens maxTokens MAX_TOKENS min_tokens max_token num_tokens n_tokens total_tokens
    prompt_tokens completion_tokens input_tokens output_tokens max_output_tokens cached_tokens tokens_used tokens_remaining tokens_total
    total_access_tokens cost_per_token ms_per_token requests_per_api_key
    token_limit token_type tokenType token_expires token_expires_at token-expires-at tokenExpiresAt token_expires_in_seconds token_ttl token_scope
    token_rate_per_minute token_created_at token_max_age token_issuer tokenizer tokenized tokenize detokenizer
    secretary secretaries secretariat secret_name secret_version secret_count
    passenger passengers passed passing compass bypass passport pass_rate pass_count pass_through passthrough first_pass second_pass
    password_changed_at passwordChangedAt password_length password_min_length password_policy password_attempts passwordless max_passwords
    password_last_changed password_expires_at
    key keys key_count api_key_count primary_key idempotency_key public_key foreign_key partition_key keyboard monkey
    signature_algorithm signatureAlgorithm signature_version function_signature method_signature design signal signed_by assign
    pin_count pinned spin pins_total gpio_pin pin_mode pinCount pin_layout opinion
    cookie_size cookie_name cookiecutter total_cookies session session_count session_id_length sessions sidebar inside outside
    author authored_by authority authors auth_type auth_method auth_enabled oauthor otp_attempts optimal county path user code status_code
    has_token hasToken has_api_key user_has_password is_secret is_token needs_password requires_auth pwm power
    error_code exit_code string strings connection connections
"""
INNOCENT_NAMES = _INNOCENT.split()

BARE = [
    "password={}", "password = {}", "password: {}", "password:{}", "password=>{}", "password => {}", "password -> {}", "password->{}",
    "password := {}", "password == {}", "password != {}", "password   =   {}", "password \n=\n {}", "DB_PASSWORD={}", "user.password={}",
    "x=1 my-secret-key={}", "token={}&x=1", "token={},x=1", "token={}, x=1", "token={};x=1", "(token={})", "[token={}]", "<a token={} b>",
    "{{'q': 'token={}'}}", '{{"q":"token={}","user":"bob"}}', "'{{\"q\": \\\"token={}\\\"}}'", "Login(user=bob, password={})", "pin={}",
    "sig={}", "signature={}", "pass={}", "user=max token={}", "user: max token: {}", "pwd={}", "otp={}", "session_id={}", "sid={}", "passwd: {}", "dsn={}", "connection_string={}",
    "api key: {}", "access token: {}", "Session ID: {}", "private key = {}", "host=db user=bob password={} dbname=app", "auth={}",
    "auth=Bearer {}", "auth: Basic {}", "token_count=7 token={}", "data[password]={}", "--password {}", "--api-key={}", "--token={} --x",
    "mysql --password {} --host db", "Authorization: {}", "Authorization: Bearer {}", "Authorization: Foo {}", "Authorization: {} bar",
    "authorization=Basic {}", "Authorization: Digest username=\"bob\", response=\"{}\"", "X-Api-Key: {}", "Set-Cookie: a={}; Path=/",
    "Authorization: AWS4-HMAC-SHA256 Credential=AK/1, SignedHeaders=host, Signature={}", "Proxy-Authorization: Negotiate {}",
    "Cookie: a=1; b={}; c=2", "curl -H 'Authorization: Foo {}' https://example.org", "cookie=a=1; b={}", "password=<{}>", "tokens:\n- {}",
    "tokens:\n  - x\n  - {}", "private_key: |\n  x\n  {}\nuser: bob",
    "https://example.org/?token={}", "https://example.org/?a=1&token={}&b=2", "https://example.org/?sig={}", "/path?api_key={}#x",
    "https://example.org/?a=1&X-Amz-Signature={}", "https://example.org:8080/?signature={}&a=b@c",
    "postgresql://bob:{}@db/app", "postgres://:{}@db", "redis://:{}@cache/0", "amqp://bob:{}@h:5672/v", "mysql+pymysql://bob:{}@db/app",
    "ftp://bob:{}@h", "foo.bar://bob:{}@h", "https://bob:{}@example.org/x", "https://{}@example.org/x", "https://{}:x-oauth-basic@example.org",
    "git+https://{}@example.org/x.git", "see 'redis://:{}@cache/0', please", '{{"url":"redis://:{}@cache/0","a":1}}',
    "<password>{}</password>", "<db-password type=\"text\">{}</db-password>", "<wsse:Password Type='x'>{}</wsse:Password>", "<p:token>\n  {}\n</p:token>",
    "<auth><user>bob</user><x>{}</x></auth>", "<Secret><![CDATA[{}]]></Secret>", "&lt;token&gt;{}&lt;/token&gt;", "\\u003cpassword\\u003e{}\\u003c/password\\u003e",
    "<password>{}", "<TOKEN>{}</token>", "<token />x<token>{}</token>", "<a><b>1</b><pw>{}</pw></a>",
    "- name: DB_PASSWORD\n  value: {}", "name: api_key, value: {}", "name=token value={}", "value={} name=token", "value: {}, key: api_key",
    "- value: {}\n  name: DB_PASSWORD", "<property name=\"password\" value=\"{}\"/>", "pw={}", "-e PW={} x",
    "postgresql://db/app?password={}", "sent bearer 1234{}", "jdbc:postgresql://bob:{}@db/app",
]  # fmt: skip
"""Forms in which the value has neither quotes nor brackets."""

QUOTED = [
    ("password={}", "repr"), ("password: {}", "repr"), ("password => {}", "repr"), ("password={}", "json"), ("password: {}", "json"),
    ('{{"password": {}}}', "json"), ('{{"password":{},"user":"bob"}}', "json"), ("{{'token': {}, 'user': 'bob'}}", "repr"),
    ("password=b{}", "repr"), ("data['password'] = {}", "repr"), ('data["password"]={}', "json"), ("passwords=['x', {}]", "repr"),
    ("headers={{'Authorization': ['Bearer x', {}]}}", "repr"), ("headers={{'Authorization': [[{}], 'x'], 'a': 1}}", "repr"),
    ("tokens=({}, ('x', {{'y': 'z'}})) user=bob", "repr"), ("token={{'a': {{'b': [{}]}}}} user=bob", "repr"), ("tokens: [[], {}]", "json"),
    ("(\"password\", {})", "repr"), ("('password', {})", "repr"), ('[["api_key",{}]]', "json"), ('[["user","bob"],["api_key",{}]]', "json"),
    ("[(b'authorization', b{})]", "repr"), ("('password', [{}])", "repr"), ('[["api_key",{}],[" user","bob"]]', "json"), ("[('password', {}), (' a', 'b')]", "repr"), ("['mysql', '--password', {}, 'x']", "repr"),
    ("Login(user='bob', password={})", "repr"), ("password=Secret({})", "repr"), ("password=SecretStr(value={}, x=1)", "repr"),
    ("dsn={}", "repr"), ("cookie={}; x=1", "repr"), ("connection_string={}", "json"), ("Authorization={}", "json"),
    ('{{"body": {}}}', "json in json"), ('{{"body": {}}}', "json in json in json"), ("body={}", "json in repr"), ("body={}", "repr in json"),
    ("body={}", "pairs in json"), ("{}", "json in repr"), ('password="{}"', "raw"), ("password='{}' user='bob'", "raw"),
    ('password="""{}"""', "raw"), ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", "raw"),
]  # fmt: skip
"""Forms in which the value is quoted, and how it is quoted (``tests.observe.embedding``)."""

SHOWN = [
    "job 0190 of welcome failed: prompt_tokens=512, secretary=Mary, token_count=7, token_type: card, county=Kent",
    "tokenExpiresAt='12:00' password_changed_at=2026-01-01 signature_algorithm: HS256, pin_count=3, key_count: 4, passenger=2",
    "see https://example.org/a?b=c&page=3 at 12:00:01", "https://example.org/@bob", "https://example.org:8080/@bob", "postgresql://bob@db:5432/app",
    "ssh://git@example.org/x.git", "mail to:bob@example.org, see https://example.org", "sqlite:///jobs.db",
    "tokens per second: 7", "exit code: 3", "primary key: 7", "user id: 7", "a string: b",
    '{"usage": {"prompt_tokens": 7, "total_tokens": 9}, "model": "x"}', "{'max_tokens': 512}", "[('token_count', 7), ('user', 'bob')]",
    '{"body": "{\\"max_tokens\\": 512, \\"user\\": \\"bob\\"}"}', "['user', 'password', 'email'] are required", "the password is wrong",
    "a token, a cookie and a key", "bearer of news", "tokens=[] cookies={}", "password=", "password=''", "--tokenizer fast --max-tokens 7",
    "usage: login <user> <token> [options]", "<name>bob</name><token_count>7</token_count>", '{"name": "user", "value": "bob"}', "name: report, value: 7",
    "has_token=True is_secret: no", "<Secret object at 0x7f>", "a value: 7, name: bob", "<has_token>yes</has_token>", "PWM=7 power=3",
    "f(x) -> y => z", "a\\b\\c: d", "ValueError: 12 is not a valid pin_mode", "GET /tokens/7 200", "tokens_per_second=7.5 tokens_used=3",
    "Traceback (most recent call last):\n  File \"a.py\", line 1, in passenger\nKeyError: 'seat'",
]  # fmt: skip
"""Texts that stay as they are."""
